"""The published corpora, a module each: its command, its description and its reader."""
