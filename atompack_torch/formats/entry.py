"""Interface of the modules named by ``formats.Format.entry``, and their result types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from atompack_torch.datasets.sweeping import OnProgress
from atompack_torch.errors import FieldError, UnsupportedFormatError, printable
from atompack_torch.formats.paths import Place
from atompack_torch.formats.text import histogram, molecule_document, molecule_text
from atompack_torch.formats.verification import Verification
from atompack_torch.options import redact_path

Array = np.ndarray[Any, Any]


class SeveralFormatsError(UnsupportedFormatError):
    """The paths of one call are of several formats."""


class WrongOptionError(FieldError):
    """An option refers to something that the data does not have."""


class Description(NamedTuple):
    """Description of files, without their data.

    Attributes:
        document: the description as plain JSON values.
        text: the same in readable form.
        errors: messages about damage.
    """

    document: Any
    text: str
    errors: Sequence[str] = ()


class Head(NamedTuple):
    """The first items of files.

    Attributes:
        values: the items, as returned by their dataset.
        documents: the same as plain JSON values, each made when it is iterated over.
        text: the same in readable form.
    """

    values: Sequence[Any]
    documents: Iterable[Any]
    text: str

    @classmethod
    def of_items(
        cls,
        datasets: Iterable[Any],
        n: int,
        item_text: Callable[[int, Any], str] = molecule_text,
        item_document: Callable[[int, Any], Any] = molecule_document,
        noun: str = "molecules",
    ) -> Head:
        """Reads the first ``n`` items of each of several datasets, of molecules by default."""
        numbered: list[tuple[int, Any]] = []
        lines = []
        for dataset in datasets:
            first = [(i, dataset[i]) for i in range(min(n, len(dataset)))]
            lines += [item_text(i, item) for i, item in first]
            lines.append(f"{len(first):,} of {len(dataset):,} {noun}")
            numbered += first
        documents = (item_document(i, item) for i, item in numbered)
        return cls([item for _, item in numbered], documents, "\n".join(lines))


class Shown(NamedTuple):
    """One item of a dataset.

    Attributes:
        document: the item as plain JSON values.
        text: the same in readable form.
    """

    document: Any
    text: str


class Summary(NamedTuple):
    """Statistics of files.

    Attributes:
        value: the statistics, as returned by the class of the dataset.
        document: the same as plain JSON values.
        text: the same in readable form.
    """

    value: Any
    document: Any
    text: str

    @classmethod
    def of_molecules(
        cls,
        open_dataset: Callable[..., Any],
        options: Mapping[str, Any],
        progress: bool | OnProgress,
    ) -> Summary:
        """Gathers statistics of every molecule of a dataset.

        Args:
            open_dataset: opens the dataset with its options.
            options: ``cutoff``, ``features``, and options of the dataset.
            progress: show a bar, or a function called with the number of molecules done since the
                last call.

        Returns:
            ``Statistics``, with a histogram of sizes in the text.
        """
        asked = {name: options[name] for name in ("cutoff", "features") if name in options}
        rest = {name: value for name, value in options.items() if name not in asked}
        dataset = open_dataset(**rest)
        found = dataset.statistics(progress, **asked)
        lines = [printable(line) for line in repr(found).splitlines()]
        if found.max_force_molecule is not None and hasattr(dataset, "_place_of"):
            file, number = dataset._place_of(found.max_force_molecule)
            lines.append(f"longest force: {printable(redact_path(file))}: molecule {number}")
        return cls(found, found.as_dict(), "\n".join([*lines, *histogram(found.sizes)]))


class CompactOptions(NamedTuple):
    """Options of ``compact``.

    Attributes:
        codec: codec of the new file; None: that of the sources.
        level: compression level; None: that of the sources, or the default of the codec.
        order: (m,) indices of the items to keep, in their new order; None: all.
        progress: show a bar, or a function called with the number of items done since the last
            call.
        num_threads: maximum number of compression threads; None: chosen by the writer.
        shards: shard size, block size and strategy of Atlas shards; None for one of them: that of
            the sources.
    """

    codec: Literal["none", "lz4", "zstd"] | None = None
    level: int | None = None
    order: Any = None
    progress: bool | OnProgress = False
    num_threads: int | None = None
    shards: tuple[int | None, int | None, int | None] | None = None


def pieces_of(sizes: Sequence[int], numbers: Array, most: int) -> Iterator[tuple[int, int, Array]]:
    """Splits items into short runs of one source.

    Args:
        sizes: numbers of items of the sources, one after the other.
        numbers: (m,) int64, numbers of items of all sources together.
        most: maximum length of a run.

    Yields:
        The number of items in earlier runs, the source, and the numbers of the items in it.
    """
    firsts = np.cumsum([0, *sizes])
    for start in range(0, len(numbers), most):
        run = numbers[start : start + most]
        which = np.searchsorted(firsts, run, side="right") - 1
        bounds = [0, *(np.flatnonzero(np.diff(which)) + 1), len(run)]
        for first, last in pairwise(bounds):
            source = int(which[first])
            yield start + first, source, np.ascontiguousarray(run[first:last] - firsts[source])


class Compaction(NamedTuple):
    """Result of ``compact``.

    Attributes:
        n_items: number of items in the new file.
        unit: name of the items, in the plural.
        bytes_before: size of the sources.
        bytes_after: size of the new file.
    """

    n_items: int
    unit: str
    bytes_before: int
    bytes_after: int


class Entry(Protocol):
    """Interface of the module of one format. ``places`` are all of this format.

    A module may lack ``can_open``, ``compact`` and ``show``. ``progress`` is True to show a bar, or
    a function called with the number of items done since the last call.
    """

    def can_open(self, place: Place) -> bool:
        """Returns False for files of its format that only ``convert`` reads; optional."""

    def open_dataset(self, path: Any, options: Mapping[str, Any]) -> Any:
        """Opens a dataset with the options of its class."""

    def describe(
        self, places: Sequence[Place], full: bool, progress: bool | OnProgress
    ) -> Description:
        """Describes files without torch; ``full`` counts in all records, not in a sample."""

    def head(self, places: Sequence[Place], n: int, fields: Sequence[str] | None) -> Head:
        """Reads the first items; ``fields`` restricts molecules to these labels."""

    def show(self, place: Place, item: str, fields: Sequence[str] | None) -> Shown:
        """Reads one item by its number or name; optional: others are items of ``open_dataset``."""

    def verify(
        self, places: Sequence[Place], max_faults: int, progress: bool | OnProgress
    ) -> Verification:
        """Reads everything with all checks."""

    def statistics(
        self, places: Sequence[Place], options: Mapping[str, Any], progress: bool | OnProgress
    ) -> Summary:
        """Gathers statistics of all data, or sums up stored ones."""

    def compact(
        self, places: Sequence[Place], target: Place, options: CompactOptions
    ) -> Compaction:
        """Writes all items to a new file without dead space; optional."""
