"""Datasets of what only ``convert`` reads, by a copy in the cache folder of the user."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from atompack_torch.conversion.pipeline import convert
from atompack_torch.errors import printable
from atompack_torch.formats.atp.dataset import AtpDataset, AtpOptions
from atompack_torch.formats.user_cache import CONVERTED, kept_copy
from atompack_torch.options import ChangeOptions

_OPTIONS = {"format", "key_map", "padding", "changes", "nan_is_missing", "on_error"}
_OPTIONS |= {option.name for option in fields(ChangeOptions)} - {"dtype"}  # that of the dataset


def open_converted(paths: Sequence[str], options: Mapping[str, Any]) -> AtpDataset:
    """Opens files as the ``.atp`` file that ``convert`` makes of them, once.

    The report of the conversion is written to stderr. See ``kept_copy`` for how long it is used.

    Args:
        paths: local files and folders, which are concatenated.
        options: of ``convert``: ``format``, ``key_map``, ``padding``, ``nan_is_missing``,
            ``on_error``, ``progress`` and those of ``Changes`` except for ``dtype``; all others are
            of ``AtpDataset``.

    Returns:
        The dataset.

    Raises:
        AtompackError: the files cannot be converted.
        OSError: a file cannot be read, or there is no room for the copy.
        TypeError: an option is unknown.
        ValueError: an option does not suit the format.
    """
    given = {name: value for name, value in options.items() if name in _OPTIONS}
    own = {name: options[name] for name in options.keys() - given.keys() - {"progress"}}
    AtpOptions.of(paths[0], own)  # wrong ones are an error before any work
    progress = options.get("progress", True)

    def make(hidden: Path) -> None:
        report = convert(paths, hidden, target="atp", progress=progress, **given)
        if progress:
            names = ", ".join(map(printable, paths))
            print(f"{names}: converted for this and later use\n{report}", file=sys.stderr)

    logs = [log for path in paths if Path(log := f"{path}-wal").is_file()]  # of SQLite
    settings = {"version": version("atompack_torch"), **given}
    text = json.dumps(settings, sort_keys=True, default=repr)
    copy = kept_copy([*paths, *logs], CONVERTED, ".atp", make, text)
    return AtpDataset(os.fspath(copy), **own)
