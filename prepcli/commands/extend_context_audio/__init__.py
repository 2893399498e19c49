"""`extend-context-audio`: finds for each record the most similar other utterance of the same speaker."""
