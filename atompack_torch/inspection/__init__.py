"""Descriptions of files as plain JSON values, a module a format; importing them needs no torch."""
