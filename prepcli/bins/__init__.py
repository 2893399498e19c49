"""`estimate-bins`, `estimate-bins-2d`, `estimate-token-bins`: bucket bins for training."""
