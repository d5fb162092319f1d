"""Inspection of paths of any format: one module per format, and the public functions.

Describing files does not need torch, so it is imported only where it is used.
"""
