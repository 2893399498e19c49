"""segment: cuts long recordings into segments, by speech, by texts with times, or into windows."""
