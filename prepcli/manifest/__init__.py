"""The NeMo manifest: one typed record, sources, an index over huge files, a writer."""
