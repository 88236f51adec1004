"""Files on a real disk, and the ordered writer with group fsync."""
