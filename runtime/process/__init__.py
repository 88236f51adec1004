"""This process, its children, its terminal and its host."""
