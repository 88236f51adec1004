"""Plans and reads ranges of offsets."""
