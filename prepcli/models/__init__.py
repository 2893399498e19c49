"""Models behind small protocols. PyTorch and NeMo are imported here only, and only when a model is used."""
