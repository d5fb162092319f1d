"""A slow, obvious .atp encoder written from the format description alone.

It turns plain molecules (the dicts of ``strategies``) into the bytes that a writer must make of
them: records, the schema, and with the codec none the whole file of a single commit.
"""

from __future__ import annotations
