"""Building, verification and upgrade of feature caches."""
