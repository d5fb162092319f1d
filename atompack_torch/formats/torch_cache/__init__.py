"""Reading, building and verification of feature caches."""
