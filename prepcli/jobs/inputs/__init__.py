"""Data sets as inputs: each container has a catalogue, whose lines are a manifest and name audio as `FILE::MEMBER`."""
