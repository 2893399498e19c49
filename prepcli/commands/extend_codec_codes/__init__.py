"""`extend-codec-codes`: codec codes of target and context audio."""
