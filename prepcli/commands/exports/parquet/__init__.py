"""`manifest-to-parquet`: turns NeMo manifests into Parquet files that contain the audio."""
