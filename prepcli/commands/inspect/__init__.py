"""Facts about data of all kinds in this field, without decoding audio."""
