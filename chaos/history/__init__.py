"""What clients did and were told, as entries that checkers read."""
