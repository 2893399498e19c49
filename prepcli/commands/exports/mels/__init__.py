"""`manifest-to-mels`: turns NeMo manifests into mel-spectrograms and file lists for Tacotron 2 and WaveGlow."""
