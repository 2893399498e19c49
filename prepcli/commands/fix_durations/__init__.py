"""fix-durations: writes the records of a manifest with measured durations."""
