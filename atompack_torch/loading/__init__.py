"""Batches in the order of a sampler, made ahead of their use."""
