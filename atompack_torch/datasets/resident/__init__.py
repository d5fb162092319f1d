"""Whole datasets in memory, on the host or a device."""
