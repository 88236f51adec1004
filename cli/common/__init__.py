"""What commands share: flags, contexts, nouns, prompts, names, files."""
