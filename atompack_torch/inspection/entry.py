"""The interface of a format's module: what ``formats.Format.entry`` names, and its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from atompack_torch.errors import FieldError
from atompack_torch.passes.check_report import CheckReport
from atompack_torch.passes.sweeping import Report


class WrongOptionError(FieldError):
    """An option names what the data does not have."""


class Description(NamedTuple):
    """What is in files, without their data.

    Attributes:
        document: all of it as plain JSON values.
        text: the same for people.
        errors: messages about what is damaged.
    """

    document: Any
    text: str
    errors: Sequence[str] = ()


class Head(NamedTuple):
    """The first items of files.

    Attributes:
        values: the items, as their data set gives them.
        documents: the same as plain JSON values.
        text: the same for people.
    """

    values: Sequence[Any]
    documents: Sequence[Any]
    text: str


class Check(Protocol):
    """The result of a check."""

    @property
    def ok(self) -> bool:
        """True if there is no fault."""

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""

    def report(self) -> CheckReport:
        """All of it for people."""


class Summary(NamedTuple):
    """Statistics of files.

    Attributes:
        value: as the class of the data set gives them.
        document: the same as plain JSON values.
        text: the same for people.
    """

    value: Any
    document: Any
    text: str


class Entry(Protocol):
    """A module that answers for one format. ``paths`` are all of this format."""

    def open_dataset(self, path: Any, options: Mapping[str, Any]) -> Any:
        """Opens a data set with the options of its class."""

    def describe(self, paths: Sequence[str], full: bool, progress: bool | Report) -> Description:
        """Describes files without torch; ``full`` counts in all records, not in a sample."""

    def head(self, paths: Sequence[str], n: int, fields: Sequence[str] | None) -> Head:
        """Reads the first items; ``fields``: of molecules, these labels only."""

    def verify(self, paths: Sequence[str], max_faults: int, progress: bool | Report) -> Check:
        """Reads everything with all checks."""

    def statistics(
        self, paths: Sequence[str], options: Mapping[str, Any], progress: bool | Report
    ) -> Summary:
        """Gathers statistics, of all data or as they are stored."""
