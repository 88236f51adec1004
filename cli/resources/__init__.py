"""Resources as the command line prints them."""
