"""blend: an `input_cfg` that mixes finished data sets by weights, or a list that does so for WeNet."""
