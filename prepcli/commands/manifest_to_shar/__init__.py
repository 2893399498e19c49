"""`manifest-to-shar`: NeMo manifests to Lhotse Shar."""
