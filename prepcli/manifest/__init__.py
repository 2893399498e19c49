"""Manifests: typed records, an index over huge files, and all other inputs that a training config may name."""
