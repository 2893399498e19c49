"""The ranks of a run: how they start, what they show, and which units they make for each other."""
