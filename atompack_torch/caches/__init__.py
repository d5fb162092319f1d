"""Feature caches: building, verifying and upgrading them."""
