"""`convert-audio`: writes the audio of NeMo manifests to plain audio files, with a new manifest that names them."""
