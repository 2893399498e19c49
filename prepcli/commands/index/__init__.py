"""`index`: writes indexes for existing data sets, with which training resumes in the middle of an epoch."""
