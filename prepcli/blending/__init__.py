"""blend: an `input_cfg` that mixes finished data sets by weights."""
