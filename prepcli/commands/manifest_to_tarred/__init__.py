"""`manifest-to-tarred`: NeMo manifests to tar shards."""
