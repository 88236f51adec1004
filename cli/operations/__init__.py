"""drain, reassign, reset and scale: changes that take a plan."""
