"""The models that jobs use, behind small interfaces. Only this package imports NeMo, and only when a model is used."""
