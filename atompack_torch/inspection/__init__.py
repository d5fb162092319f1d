"""What can be asked of a path whatever its format: a module a format, and the public functions.

Describing files needs no torch, so what needs it is imported where it is used.
"""
