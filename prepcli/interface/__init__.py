"""The parts that the command line and the Python API share: the list of commands, the options, the current call."""
