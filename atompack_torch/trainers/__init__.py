"""Batches, loaders and data modules for the trainers of other packages, one module each.

Each module is imported only when asked for, and needs the package of its trainer.
"""
