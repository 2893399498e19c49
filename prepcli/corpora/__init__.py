"""Published corpora: where their archives are, how their trees are read, and what a record carries."""
