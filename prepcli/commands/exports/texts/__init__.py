"""`texts-to-shards`: divides texts, or pairs of texts, into shards for NeMo's types txt and txt_pair."""
