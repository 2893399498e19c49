"""`index`: indexes of data sets that exist, with which training resumes in the middle of an epoch."""
