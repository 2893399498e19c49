"""blend: mixes finished data sets by weights, in an `input_cfg` for NeMo or in a list for WeNet."""
