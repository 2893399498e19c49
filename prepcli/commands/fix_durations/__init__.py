"""fix-durations: the records of a manifest with durations as measured."""
