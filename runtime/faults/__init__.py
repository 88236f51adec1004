"""Faults that chaos runs inject into real nodes: lying disks, wrong clocks, cut links."""
