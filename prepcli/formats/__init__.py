"""What trainers read: tar streams, NeMo's tarred sets, Lhotse Shar, codes; written, read back, and checked."""
