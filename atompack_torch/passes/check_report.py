"""The result of a check, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class CheckReport(NamedTuple):
    """The result of a check, for people.

    Attributes:
        faults: kind of fault → messages of the first ones, and the number of all.
        warnings: what readers get over.
        summary: one line about all of it.
    """

    faults: Mapping[str, tuple[Sequence[str], int]]
    warnings: Sequence[str]
    summary: str
