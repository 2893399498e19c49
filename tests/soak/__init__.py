"""Random kills over all jobs: whatever dies, and whenever, the next start ends with the bytes of an undisturbed run."""
