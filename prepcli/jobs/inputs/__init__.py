"""Data sets as inputs: each container is read as a catalogue, a manifest that names its audio `FILE::MEMBER`."""
