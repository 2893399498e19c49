"""estimate-batch-sizes: the largest batch of each bucket that fits into a GPU's memory."""
