"""How many tokens a text is, for the tokenizers that speech models are trained with."""
