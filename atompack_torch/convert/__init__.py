"""Files of other formats."""
