"""`manifest-to-shar`: turns NeMo manifests into a Lhotse Shar data set."""
