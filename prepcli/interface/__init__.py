"""What the command line and the Python API share: the list of commands, how options are declared, the current call."""
