"""extend-text-context: cuts of a Lhotse Shar set with a text that describes the voice, in place of context audio."""
