"""Small durable state beside the log: checkpoints, epochs, producers, directory notes."""
