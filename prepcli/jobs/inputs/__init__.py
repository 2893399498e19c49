"""Data sets as inputs. Each container is read through its catalogue: a manifest with audio paths `FILE::MEMBER`."""
