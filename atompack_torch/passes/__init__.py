"""One look at every molecule of a data set: statistics and verification."""
