"""score: writes the records of manifests with measures of their audio and text."""
