"""The virtual runtime: loop, disks, networks and crashes under one seed."""
