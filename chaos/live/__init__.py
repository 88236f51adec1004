"""The live harness: stories for clusters of real processes, and the clients whose histories are judged."""
