"""`extend-context-audio`: for each record the best other utterance of the same speaker."""
