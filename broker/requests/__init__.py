"""What all services of a broker share: statistics, slow requests, errors, limits."""
