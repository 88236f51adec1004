"""Real nodes, their links, their disks and their power."""
