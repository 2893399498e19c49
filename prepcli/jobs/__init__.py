"""The bases of commands: jobs over records, jobs over lines, and jobs that run models."""
