"""The folder of the files that the original libraries wrote: ``tests/fixtures``, or a larger set.

``ATOMPACK_FIXTURES`` names a folder of the same layout that takes its place. Tests that run over
all files are parametrised from what the chosen folder has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

INNER = Path(__file__).resolve().parents[1] / "fixtures"
FORMATS = ("atlas", "atlas_shards", "atlas_today", "atp", "torch_cache")


def fixtures_root() -> Path:
    """The folder above ``atp``, ``atlas``, ``atlas_shards`` and ``torch_cache``.

    Raises:
        FileNotFoundError: ``ATOMPACK_FIXTURES`` is set, and one of the four is not there.
    """
    root = Path(os.environ.get("ATOMPACK_FIXTURES") or INNER)
    for name in FORMATS:
        if not (root / name).is_dir():
            raise FileNotFoundError(f"{root / name}: expected a folder (see ATOMPACK_FIXTURES)")
    return root


def names_of(pattern: str, suffix: str) -> list[str]:
    """Names, less the suffix, of all files that match the pattern below the chosen folder.

    The files of the inner set must be among them: a larger set only adds to it.
    """
    found = {path.name.removesuffix(suffix) for path in fixtures_root().glob(pattern + suffix)}
    expected = {path.name.removesuffix(suffix) for path in INNER.glob(pattern + suffix)}
    if not expected or not expected <= found:
        raise FileNotFoundError(
            f"{fixtures_root() / pattern}{suffix}: expected {sorted(expected - found) or 'files'}"
        )
    return sorted(found)


def present(names: Iterable[str], pattern: str) -> list[str]:
    """Those names for which the chosen folder has a file; the pattern has ``{}`` for the name."""
    return [name for name in names if (fixtures_root() / pattern.format(name)).exists()]
