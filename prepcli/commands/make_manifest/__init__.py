"""make-manifest: a NeMo manifest of audio in folders, lists, tables, or formats of other toolkits."""
