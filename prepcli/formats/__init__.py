"""The formats that trainers read: tars, NeMo's tarred sets, Lhotse Shar, codes; writing and reading them."""
