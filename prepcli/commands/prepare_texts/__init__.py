"""prepare-texts: makes records without audio from texts, for ASR training with audio that a TTS model synthesizes."""
