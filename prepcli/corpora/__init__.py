"""Published corpora: where they are, how their trees are read, what a record of theirs carries."""
