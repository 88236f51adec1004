"""What is checked while a simulated cluster runs, and at its end."""
