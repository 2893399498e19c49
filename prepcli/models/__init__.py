"""Models behind small protocols. NeMo is imported only here, and only when a model is used."""
