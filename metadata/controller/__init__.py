"""The active controller: it decides on the committed image and its own pending operations."""
