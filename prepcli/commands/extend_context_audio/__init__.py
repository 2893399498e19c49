"""`extend-context-audio`: finds for each record the best other utterance of the same speaker."""
