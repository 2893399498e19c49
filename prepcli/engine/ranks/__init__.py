"""Divides the work among ranks: claims, launches, stages and stealing."""
