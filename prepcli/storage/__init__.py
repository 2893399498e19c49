"""Object stores: addresses such as `s3://bucket/key`, reading, writing, and paths. Needs the extra `s3` when used."""
