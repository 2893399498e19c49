"""Models behind small protocols. PyTorch and NeMo are imported only here, and only when a model is used."""
