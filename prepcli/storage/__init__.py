"""Object stores: addresses such as `s3://bucket/key`, reading, writing, and paths. Requests need the extra `s3`."""
