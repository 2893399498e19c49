"""Arrays in files, cutting into units, and hashing."""
