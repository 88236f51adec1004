"""The first start of a quorum: who writes the initial voters, and who must wait."""
