"""Wrappers that carry collated batches through collate functions unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from torch import Tensor
from torch.utils.data._utils.collate import default_collate_fn_map

from atompack_torch.batch.molecule_batch import MoleculeBatch


@overload
def collate_identity(items: MoleculeBatch | list[MoleculeBatch]) -> MoleculeBatch: ...
@overload
def collate_identity(items: object) -> object: ...
def collate_identity(items: object) -> object:
    """Returns the collated batch that a ``DataLoader`` got from a dataset of this package.

        loader = DataLoader(AtpDataset("data.atp", transform=...), batch_size=64,
                            collate_fn=apt.collate_identity)

    torch's ``DataLoader`` needs no ``collate_fn``: its default supports these batches. Use this one
    where a loader requires a ``collate_fn``, or as the first step of your own.

    A dataset of this package makes whole batches: its ``__getitems__`` returns a list of one item,
    the collated batch, which a collate function only has to return. The item is

    - the batch itself if it is a ``MoleculeBatch`` or a dict (any mapping), also as a result of
      ``transform``, so that functions that take a list of one dict (NequIP's
      ``batched_from_list``) accept it;
    - otherwise a named tuple with the single entry ``value``. Collate functions for named tuples
      (of torch, and of the loaders of PyG and MACE) return the value itself, unchanged.

    These collate functions also return the entries of a dict unchanged.

    Args:
        items: the argument of a ``collate_fn``, or a batch.

    Returns:
        The batch: a ``MoleculeBatch``, a dict, or the result of ``transform``. Anything but a list
        is returned unchanged.

    Raises:
        TypeError: a list of several items, which are not collated; ``collate`` joins molecules.
    """
    if not isinstance(items, list):
        return items.value if isinstance(items, CollatedValue) else items
    if len(items) != 1:
        raise TypeError(
            f"collate_identity: expected a list of one finished batch, got {len(items)} items; "
            "apt.collate joins molecules and batches"
        )
    item = items[0]
    if isinstance(item, CollatedDict):
        return item.plain()
    return item.value if isinstance(item, CollatedValue) else item


def as_items(batch: Any, arena: Tensor | None = None, payload: Any = None) -> list[Any]:
    """Returns a list of one item that collate functions turn into the given batch.

    Args:
        batch: any value.
        arena: memory that holds all tensors of a dict, if it leaves this process.
        payload: result of torch's default collate function for any other value that leaves this
            process.

    Returns:
        The list.
    """
    if isinstance(batch, MoleculeBatch):
        return [batch]
    if type(batch) is dict:
        return _DictItems(CollatedDict(batch, arena))
    if isinstance(batch, Mapping):
        return _DictItems(batch)
    return [CollatedValue.of(batch, payload)]


class CollatedDict(dict[Any, Any]):
    """A collated batch that is a dict; with an arena, a worker sends it as one block."""

    __slots__ = ("arena",)

    def __init__(self, values: dict[Any, Any], arena: Tensor | None = None) -> None:
        super().__init__(values)
        self.arena = arena

    def plain(self) -> dict[Any, Any]:
        """Returns a plain dict, unless the batch is about to leave this process."""
        return dict(self) if self.arena is None else self

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class _Carrier(str):
    """A string with a value attached: collate functions return strings unchanged."""

    value: Any
    payload: Any


class CollatedValue(tuple[Any, ...]):
    """A collated batch of any other type, as a named tuple of one field.

    Collate functions rebuild named tuples by calling their class with the collated fields. The
    field here is a string to them, which they keep, and the call returns the value.
    """

    _fields = ("value",)

    def __new__(cls, column: Sequence[_Carrier]) -> Any:
        """Returns the value of a collated field."""
        return column[0].value

    @classmethod
    def of(cls, value: Any, payload: Any = None) -> CollatedValue:
        """Wraps a value."""
        carrier = _Carrier()
        carrier.value, carrier.payload = value, value if payload is None else payload
        return tuple.__new__(cls, (carrier,))

    @property
    def value(self) -> Any:
        """The collated batch."""
        return self[0].value

    def __reduce__(self) -> Any:
        return CollatedValue.of, (self.value,)


class _Entries(dict[Any, Any]):
    """A dict whose entries are wrapped for collate functions."""

    def __getitem__(self, key: Any) -> Any:
        return CollatedValue.of(super().__getitem__(key))


class _DictItems(list[Any]):
    """A list of one dict.

    Collate functions look at the type of the first item, then iterate over all items once per key
    to collate the entries: that iteration yields a dict with wrapped entries. Code that only
    iterates, or only takes the first item, gets the dict itself.
    """

    def __init__(self, item: Mapping[Any, Any]) -> None:
        super().__init__([item])
        self._is_typed = False

    def __getitem__(self, index: Any) -> Any:
        self._is_typed = True
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[Any]:
        if not self._is_typed:
            return super().__iter__()
        return iter([_Entries(super().__getitem__(0))])

    def __reduce__(self) -> Any:
        return list, ([super().__getitem__(0)],)


def _collate_dict(items: Sequence[CollatedDict], *, collate_fn_map: Any = None) -> Any:
    return items[0].plain()


def _collate_value(items: Sequence[CollatedValue], *, collate_fn_map: Any = None) -> Any:
    return items[0][0].payload


default_collate_fn_map[CollatedDict] = _collate_dict
default_collate_fn_map[CollatedValue] = _collate_value
