"""Planning and reading ranges of offsets."""
