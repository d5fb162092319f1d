"""Folders of Atlas shards: examples pickled into zstd blocks."""
