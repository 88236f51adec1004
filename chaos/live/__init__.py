"""The live harness: what clients of real processes did and were told, and the checkers that judge it."""
