"""ATLAS stores and array files."""
