"""`manifest-to-parquet`: NeMo manifests to Parquet files with the audio in them."""
