"""`manifest-to-mels`: NeMo manifests to mel-spectrograms and file lists for Tacotron 2 and WaveGlow."""
