"""`download`: fetches and unpacks published corpora, or reads copies of them, and makes NeMo manifests."""
