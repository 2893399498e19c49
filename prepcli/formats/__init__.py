"""Writes and reads the formats of trainers: tars, NeMo's tarred sets, Lhotse Shar, codes and others."""
