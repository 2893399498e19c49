"""Count tokens of texts with the tokenizers that speech models are trained with."""
