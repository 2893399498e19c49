"""`status`: the progress of runs."""
