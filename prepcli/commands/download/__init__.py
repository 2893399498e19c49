"""Published corpora: their archives, how their folders are read, and the fields of their records."""
