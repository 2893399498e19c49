"""filter: keeps the records that rules keep, and shows what each rule costs."""
