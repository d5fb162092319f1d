"""The datasets of ATLAS stores, and the arrays of array files, as `head` and `show` have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from atompack_torch.errors import printable
from atompack_torch.fields import similar_names
from atompack_torch.formats.entry import Head, Shown, WrongOptionError
from atompack_torch.formats.places import Place
from atompack_torch.formats.text import first_of, plain, table
from atompack_torch.remote.files import RemoteFiles

if TYPE_CHECKING:
    from atompack_torch.formats.atlas_store.array_schema import ArraySchema
    from atompack_torch.formats.atlas_store.array_statistics import ArrayStatistics

_MOST_VALUES, _MOST_SHOWN = 8, 18  # of an array, in the text of several datasets and of one


class OpenedStore:
    """An open store, or an array file presented as a store of one array per dataset.

    Args:
        place: the path or URL.
    """

    def __init__(self, place: Place) -> None:
        from atompack_torch.formats.atlas_store.array_file import ArrayFile
        from atompack_torch.formats.atlas_store.atlas_store import AtlasStore

        path, options = place.path, place.options
        self.store = AtlasStore(path, **options) if place.is_folder else None
        self.file = ArrayFile(path, **options) if self.store is None else None

    @property
    def datasets(self) -> list[str]:
        """Names of the datasets, in order."""
        if self.store is not None:
            return self.store.datasets
        assert self.file is not None
        return self.file.names

    @property
    def arrays(self) -> list[str]:
        """Names of the arrays that some dataset has."""
        return [""] if self.store is None else self.store.arrays

    def arrays_of(self, dataset: str) -> list[str]:
        """Returns the names of the arrays of a dataset."""
        return [""] if self.store is None else self.store.arrays_of(dataset)

    def attrs(self, dataset: str) -> dict[str, Any]:
        """Returns the attributes of a dataset."""
        return {} if self.store is None else self.store.attrs(dataset)

    def schema(self, dataset: str, array: str) -> ArraySchema:
        """Returns the storage layout of an array."""
        if self.store is not None:
            found: ArraySchema = self.store.schema(array, dataset)
            return found
        assert self.file is not None
        return self.file.schema(dataset)

    def read(self, dataset: str, array: str) -> Any:
        """Reads an array."""
        if self.store is not None:
            return self.store.read(dataset, array)
        assert self.file is not None
        return self.file.read(dataset)

    def statistics(self) -> Iterator[tuple[str, dict[str, ArrayStatistics]]]:
        """Yields the name of each array, and its statistics by dataset."""
        if self.store is not None:
            for array in self.store.arrays:
                yield array, self.store.stats(array)
        else:
            assert self.file is not None
            yield "", self.file.stats()


def head(
    paths: Sequence[str],
    n: int,
    fields: Sequence[str] | None = None,
    remote: RemoteFiles | None = None,
) -> Head:
    """Reads the first datasets: attributes and arrays, all or those of ``fields``."""
    values, lines = [], []
    for path in paths:
        opened = OpenedStore(Place(path, remote))
        _check_arrays(opened, fields)
        for dataset in opened.datasets[:n]:
            value = _read(opened, dataset, fields)
            values.append(value)
            lines.append(_dataset_text(opened, value, _MOST_VALUES))
        lines.append(f"{min(n, len(opened.datasets)):,} of {len(opened.datasets):,} datasets")
    return Head(values, map(plain, values), "\n".join(lines))


def show(
    path: str, item: str, fields: Sequence[str] | None, remote: RemoteFiles | None = None
) -> Shown:
    """Reads one dataset: attributes and arrays.

    Args:
        path: the store or array file.
        item: name of the dataset, of an array file that of the array; or, where there is none of
            this name, its number, negative ones from the end.
        fields: names of arrays; None: all.
        remote: access to URLs.

    Returns:
        The dataset.

    Raises:
        WrongOptionError: there is no such dataset or array.
    """
    opened = OpenedStore(Place(path, remote))
    _check_arrays(opened, fields)
    value = _read(opened, _dataset_named(item, opened.datasets), fields)
    return Shown(plain(value), _dataset_text(opened, value, _MOST_SHOWN))


def _dataset_named(item: str, names: list[str]) -> str:
    if item in names:
        return item
    try:
        number = int(item)
    except ValueError:
        raise WrongOptionError(f"INDEX: no dataset {item!r}{_hint(item, names)}") from None
    if not -len(names) <= number < len(names):
        raise WrongOptionError(f"INDEX: expected a number below {len(names):,}, got {item}")
    return names[number]


def _check_arrays(opened: OpenedStore, fields: Sequence[str] | None) -> None:
    names = opened.arrays
    for name in fields or ():
        if name not in names:
            raise WrongOptionError(f"fields: no array {name!r}{_hint(name, names)}")


def _hint(name: str, names: Iterable[str]) -> str:
    similar = [repr(other) for other in similar_names(name, names)]
    return f": did you mean {' or '.join(similar)}?" if similar else ""


def _read(opened: OpenedStore, dataset: str, fields: Sequence[str] | None) -> dict[str, Any]:
    names = [name for name in opened.arrays_of(dataset) if fields is None or name in fields]
    arrays = {name: opened.read(dataset, name) for name in names}
    return {"dataset": dataset, "attributes": opened.attrs(dataset), "arrays": arrays}


def _dataset_text(opened: OpenedStore, value: dict[str, Any], most: int) -> str:
    dataset, attributes = value["dataset"], plain(value["attributes"])
    rows = [(printable(k), "attribute", "", printable(repr(v))) for k, v in attributes.items()]
    for name, array in value["arrays"].items():
        schema = opened.schema(dataset, name)
        shown = printable(first_of(array, most))
        rows.append((printable(name), schema.dtype, str(schema.shape), shown))
    title = f"dataset {printable(dataset)}"
    return f"{title}\n{table(rows, '  ')}" if rows else title
