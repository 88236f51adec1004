"""Records as users send and receive them: validation, columns, serializers."""
