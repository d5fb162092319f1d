"""Passes over every molecule of a data set: statistics and verification."""
