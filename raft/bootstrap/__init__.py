"""The first start of a quorum: the rule that chooses the first voters, its IO, and the guard against older copies of
stores."""
