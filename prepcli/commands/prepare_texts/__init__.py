"""prepare-texts: makes records of texts alone, for ASR training with audio that a TTS model makes of the texts."""
