"""What a controller decides, as pure functions: (image, request) to (records, response)."""
