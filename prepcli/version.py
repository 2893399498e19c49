"""The version of prepcli."""

__version__ = "0.3.0"
