"""How the files of a unit appear in OUT, and whose they are."""
