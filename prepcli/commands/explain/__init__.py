"""`explain`: says where a record comes from, and why it was kept or dropped."""
