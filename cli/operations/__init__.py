"""drain, reassign, reset and scale: changes that follow a plan."""
