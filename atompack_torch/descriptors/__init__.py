"""Descriptors of atomic environments, and forces from their derivatives."""
