"""split: divides the records of manifests into parts; the records of a speaker, or of another group, stay together."""
