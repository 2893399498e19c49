"""`verify`: whether a data set is complete, readable and as it was published."""
