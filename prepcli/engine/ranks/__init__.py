"""Which rank does what: claims, launches, stages and stealing."""
