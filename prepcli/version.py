"""The version of prepcli."""

__version__ = "0.1.0"
