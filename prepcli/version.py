"""The version of prepcli."""

__version__ = "0.4.0"
