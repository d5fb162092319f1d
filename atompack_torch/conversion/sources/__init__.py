"""Foreign formats that conversions read, one module each."""
