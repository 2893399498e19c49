"""`inspect`: what a file or directory contains, from its lines and the headers of its audio."""
