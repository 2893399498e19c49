"""`estimate-bins`, `estimate-bins-2d`, `estimate-token-bins`: bins for bucketed training."""
