"""`verify`: checks that a data set is complete, readable and as published."""
