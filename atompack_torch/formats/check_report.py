"""Readable results of checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class CheckReport(NamedTuple):
    """Result of a check in readable form.

    Attributes:
        faults: kind of fault → messages of the first ones, and the total number.
        warnings: irregularities that readers tolerate.
        summary: one-line summary.
    """

    faults: Mapping[str, tuple[Sequence[str], int]]
    warnings: Sequence[str]
    summary: str
