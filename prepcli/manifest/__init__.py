"""The NeMo manifest: one typed record, an index over huge files; and whatever else a training config may name."""
