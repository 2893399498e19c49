"""make-manifest: a NeMo manifest of audio that lies in folders, lists, tables, or in the formats of other toolkits."""
