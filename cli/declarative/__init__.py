"""apply, diff, edit, export and import: resources as files."""
