"""`convert-audio`: NeMo manifests to plain audio files, with a manifest of them."""
