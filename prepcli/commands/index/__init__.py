"""`index`: writes indexes for existing data sets, so that training can resume in the middle of an epoch."""
