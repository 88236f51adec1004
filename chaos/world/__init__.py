"""The virtual runtime: event loop, disks, networks and crashes, all driven by one seed."""
