"""What several commands are made of: jobs over records, and jobs that run models."""
