"""Resources as the command line shows them."""
