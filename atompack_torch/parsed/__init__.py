"""Formats whose molecules are parsed from text when they are read: keys, indexes, plain copies."""
