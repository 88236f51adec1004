"""Shared by all commands: flags, contexts, nouns, prompts, names, files."""
