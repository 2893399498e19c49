"""Data sets as inputs: each container becomes a catalogue, lines of a manifest that name its audio `FILE::MEMBER`."""
