"""split: divides the records of manifests into parts, with no speaker in two of them."""
