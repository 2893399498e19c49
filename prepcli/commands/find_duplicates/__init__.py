"""find-duplicates: finds records with the same audio, the same text, or the same speaker in several inputs."""
