"""Publishes the files of units in OUT, and records which files are ours."""
