"""What lies in `OUT.prepcli`, and in OUT."""
