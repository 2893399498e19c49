"""Converts bytes to samples and back: probing, reading of segments, encoding, resampling."""
