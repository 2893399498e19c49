"""`compare`: shows in what two manifests or data sets differ."""
