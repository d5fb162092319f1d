"""Steps and loaders of trainers, as ``atompack-torch bench --train`` measures them.

A module for each trainer, with a class ``Training``.
"""
