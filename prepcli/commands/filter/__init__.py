"""filter: drops records by rules, and shows how many records and hours each rule drops."""
