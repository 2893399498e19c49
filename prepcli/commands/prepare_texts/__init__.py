"""prepare-texts: records of text alone, for ASR training with audio that a TTS model makes of them."""
