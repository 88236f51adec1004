"""The streams between leaders and followers, and the pure cores at both ends."""
