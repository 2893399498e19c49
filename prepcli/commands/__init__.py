"""The commands: a package each, named as the command."""
