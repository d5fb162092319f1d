"""Names of datasets and arrays of a store, and the numbers that native handles use for them."""

from __future__ import annotations

from atompack_torch._native import AtlasReader, AtlasWriter
from atompack_torch.errors import FieldError
from atompack_torch.formats.atlas_store.store_handle import StoreHandle
from atompack_torch.options import utf8


class StoreNames:
    """Names in a store, pending changes included where nothing else is said.

    Args:
        handle: handle of the store.
    """

    def __init__(self, handle: StoreHandle) -> None:
        self._handle = handle
        self._n_changes = -1  # those of the handle that the names below include
        self._datasets: list[str] | None = None
        self._arrays: dict[str, int] | None = None

    def _forget_older(self) -> None:
        if self._n_changes != self._handle.n_changes:
            self._n_changes, self._datasets, self._arrays = self._handle.n_changes, None, None

    def datasets(self) -> list[str]:
        """Returns the names of the datasets, in stored order; not to be modified."""
        self._forget_older()
        names = self._datasets
        if names is None:
            names = self._datasets = self._handle.current().dataset_names()
        return names

    def flushed_datasets(self) -> list[str]:
        """Returns the names of the flushed datasets, in the order of the reader's numbers."""
        if self._handle.writer is None:
            return self.datasets()
        return self._handle.reader().dataset_names()

    def arrays(self) -> dict[str, int]:
        """Returns the numbers of the arrays by name; not to be modified."""
        self._forget_older()
        numbers = self._arrays
        if numbers is None:
            names = self._handle.current().variable_names()
            numbers = self._arrays = {x: i for i, x in enumerate(names) if x is not None}
        return numbers

    def arrays_of(self, dataset: str) -> list[str]:
        """Returns the names of the arrays of a dataset, in stored order."""
        handle = self._handle.current()
        names = handle.variable_names()
        return [str(names[i]) for i in handle.variables_of(self.dataset_number(dataset))]

    def array_number(self, array: str) -> int:
        """Returns the number of an array; FieldError if there is none of this name."""
        try:
            return self.arrays()[array]
        except KeyError:
            raise self._no_array(array) from None

    def flushed_array_number(self, array: str) -> int:
        """Returns the reader's number for a flushed array; FieldError if there is none."""
        if self._handle.writer is None:
            return self.array_number(array)
        try:
            return self._handle.reader().variable_names().index(array)
        except ValueError:
            raise self._no_array(array) from None

    def dataset_number(self, dataset: str) -> int:
        """Returns the number of a dataset; FieldError if there is none of this name."""
        return self.dataset_numbers(self._handle.current(), [dataset])[0]

    def dataset_numbers(self, handle: AtlasReader | AtlasWriter, datasets: list[str]) -> list[int]:
        """Returns the numbers that a native handle has for datasets.

        Args:
            handle: the native reader or writer.
            datasets: names.

        Returns:
            The numbers, in the order of the names.

        Raises:
            FieldError: no such dataset.
            TypeError: a name is not a string.
        """
        try:
            return handle.find_datasets(datasets)
        except FieldError as error:
            raise FieldError(f"{self._handle.path}: {error}") from None
        except TypeError:  # not strings, or not representable in UTF-8
            for name in datasets:
                utf8(f"{self._handle.path}: dataset", name)
            raise

    def _no_array(self, array: str) -> FieldError:
        return FieldError(f"{self._handle.path}: no dataset has an array {array!r}")
