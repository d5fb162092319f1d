"""Batches and molecules: the classes, and how they are joined, cast, moved and converted."""
