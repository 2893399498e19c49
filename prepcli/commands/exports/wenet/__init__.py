"""`manifest-to-wenet`: turns NeMo manifests into shards or data lists for WeNet."""
