"""The content of `OUT.prepcli` and of OUT."""
