"""What is this? Facts about data of any kind that people of this field hold, without decoding audio."""
