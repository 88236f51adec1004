"""Small durable state beside the log: checkpoints, leader epochs, producers, notes of a data directory."""
