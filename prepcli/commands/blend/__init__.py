"""blend: an `input_cfg` that mixes finished data sets by weights, or such a list for WeNet."""
