"""The command line: options in, one library call, a summary out."""
