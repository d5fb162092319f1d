"""Metadata of ASE databases, of which a conversion keeps the units alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from atompack_torch.errors import CorruptFileError
from atompack_torch.formats.conversion_report import Report, described

BOOKKEEPING = "ids, times, users and calculator settings of the rows are not carried over"


def take_metadata(path: str, stored: Callable[[], Any], report: Report) -> None:
    """Reports the metadata of a database, of which units alone are kept.

    Args:
        path: the database, for messages.
        stored: reads the metadata.
        report: receives the units and what is dropped.

    Raises:
        CorruptFileError: they cannot be read, unless ``on_error="skip"``.
    """
    try:
        metadata = dict(stored())
    except Exception as error:  # whatever the database stumbles over
        fault = CorruptFileError(f"{path}: its metadata: {described(error)}")
        if report.on_error == "raise":
            raise fault from error
        report.skip("metadata", str(fault))
        return
    for key, value in metadata.items():
        found = _units(key, value)
        units = {own: unit for own, unit in found.items() if isinstance(unit, str)}
        report.units.update({own: unit for own, unit in units.items() if unit})
        if key == "key_descriptions" or not units or len(units) < len(found):
            report.skip(f"metadata {key!r}", "of the whole database")


def _units(key: str, value: Any) -> dict[str, Any]:
    """Returns field → unit of an entry of metadata: as ASE, or SchNetPack, has them."""
    if key == "key_descriptions" and isinstance(value, dict):
        triples = {own: texts for own, texts in value.items() if isinstance(texts, (list, tuple))}
        return {own: texts[2] for own, texts in triples.items() if len(texts) == 3}
    if isinstance(value, dict) and "unit" in key.lower():
        return value
    is_distance = re.search(r"(distance|length|position)s?_units?$", key, re.IGNORECASE)
    return {"positions": value} if is_distance else {}
