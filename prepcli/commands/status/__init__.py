"""`status`: what runs are doing."""
