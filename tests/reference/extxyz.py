"""Extended XYZ in tests: small files, what is read of them, and what is reported."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from reference.frames import Frame, frames_of

import atompack_torch as apt
from atompack_torch.formats.extxyz import converter as extxyz

COLUMNS = "Properties=species:S:1:pos:R:3"


class Told:
    """A report that keeps what it is told."""

    def __init__(self) -> None:
        self.skipped: list[tuple[str, str, int]] = []
        self.notes: list[str] = []

    def skip(self, what: str, why: str, count: int = 1) -> None:
        self.skipped.append((what, why, count))

    def note(self, text: str) -> None:
        self.notes.append(text)


def read(path: Path, **options: Any) -> list[Frame]:
    return frames_of(extxyz.Reader(path, **options))


def read_or_message(path: Path) -> tuple[list[Frame], str | None]:
    """The frames, or what is said of the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return read(path), None
        except (apt.CorruptFileError, apt.FieldError) as error:
            return [], str(error)


def one_atom(comment: str, atom: str = "H 0 0 0") -> str:
    return f"1\n{comment}\n{atom}\n"
