"""Loaders, which make batches ahead of their use, and samplers, which choose their order."""
