"""`manifest-to-wenet`: NeMo manifests to the shards or data lists of WeNet."""
