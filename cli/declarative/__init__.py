"""apply, diff, edit, export and import: resources in files."""
