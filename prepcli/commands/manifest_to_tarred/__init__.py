"""`manifest-to-tarred`: turns NeMo manifests into numbered tar shards with manifests."""
