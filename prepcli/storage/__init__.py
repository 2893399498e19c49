"""Access to object stores: addresses such as `s3://bucket/key`, paths of objects, and requests that read and write.

Requests need the extra `s3`.
"""
