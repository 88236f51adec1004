"""Records as users give and get them: checks, columns, serializers."""
