"""Foreign formats that conversions write, one module each."""
