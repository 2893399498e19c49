"""What trainers read: the tar stream, NeMo tarred sets."""
