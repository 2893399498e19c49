"""`status`: shows the progress of runs."""
