"""prepcli turns speech corpora into what trainers read, at any scale."""

__version__ = "0.1.0"
