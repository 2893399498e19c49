"""Data sets as inputs: each container is read as a catalogue, a manifest whose audio has names such as `FILE::MEMBER`.
"""
