"""The log and hard state on LMDB."""
