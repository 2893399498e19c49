"""prepare-texts: records with texts only, for ASR training with audio that a TTS model makes from them."""
