"""Bytes to samples and back: probe, read a segment, encode, resample."""
