"""Finished batches on their way through collate functions, ours and others'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.utils.data._utils.collate import default_collate_fn_map

from atompack_torch.batch.molecule_batch import MoleculeBatch


def collate_identity(items: Any) -> Any:
    """The finished batch that a ``DataLoader`` got from a data set of this package.

        loader = DataLoader(AtpDataset("data.atp", transform=...), batch_size=64,
                            collate_fn=apt.collate_identity)

    torch's ``DataLoader`` needs no ``collate_fn``: its default knows these batches. This one is for
    loaders that want one to be named, and a first step for collate functions of your own.

    A data set of this package makes whole batches: its ``__getitems__`` returns a list of one item,
    the finished batch, which a collate function has only to hand on. The item is

    - the batch itself if that is a ``MoleculeBatch`` or a dict (any mapping), whether ``transform``
      made it or not: what takes a list of one dict (NequIP's ``batched_from_list``) takes it;
    - else a named tuple of one entry, ``value``. Collate functions of named tuples (those of
      torch, of PyG's ``DataLoader``, of MACE's) give back the value itself, unchanged.

    The entries of a dict come back unchanged from these collate functions too.

    Args:
        items: what a ``DataLoader`` hands to its ``collate_fn``, or a batch.

    Returns:
        The batch: a ``MoleculeBatch``, a dict, or what ``transform`` returned. Anything but a list
        is returned as it is.

    Raises:
        TypeError: a list of several items, which are not finished; ``collate`` joins molecules.
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
    """A list of one item: a finished batch, as collate functions get it.

    Args:
        batch: any value.
        arena: memory that all tensors of a dict lie in, if it leaves this process.
        payload: what torch's default makes of another value that leaves this process.
    """
    if isinstance(batch, MoleculeBatch):
        return [batch]
    if type(batch) is dict:
        return _DictItems(CollatedDict(batch, arena))
    if isinstance(batch, Mapping):
        return _DictItems(batch)
    return [CollatedValue.of(batch, payload)]


class CollatedDict(dict[Any, Any]):
    """A finished batch that is a dict.

    Where ``arena`` is given, it leaves a worker as one piece (see ``transport``).
    """

    __slots__ = ("arena",)

    def __init__(self, values: dict[Any, Any], arena: Tensor | None = None) -> None:
        super().__init__(values)
        self.arena = arena

    def plain(self) -> dict[Any, Any]:
        """A dict of the class itself, unless it is about to leave this process."""
        return dict(self) if self.arena is None else self

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class _Carrier(str):
    """A string, which collate functions hand on, that carries a value."""

    value: Any
    payload: Any


class CollatedValue(tuple[Any, ...]):
    """A finished batch that is neither a MoleculeBatch nor a mapping: a tuple of one field.

    Collate functions make named tuples anew from their collated fields, by a call of the class.
    The field here is a string to them, which they leave alone, and the call gives the value.
    """

    _fields = ("value",)

    def __new__(cls, column: Sequence[_Carrier]) -> Any:
        """The value of a collated field, itself."""
        return column[0].value

    @classmethod
    def of(cls, value: Any, payload: Any = None) -> CollatedValue:
        """The item for a value."""
        carrier = _Carrier()
        carrier.value, carrier.payload = value, value if payload is None else payload
        return tuple.__new__(cls, (carrier,))

    @property
    def value(self) -> Any:
        """The finished batch."""
        return self[0].value

    def __reduce__(self) -> Any:
        return CollatedValue.of, (self.value,)


class _Entries(dict[Any, Any]):
    """A dict that hands out its entries as items for collate functions."""

    def __getitem__(self, key: Any) -> Any:
        return CollatedValue.of(super().__getitem__(key))


class _DictItems(list[Any]):
    """A list of one dict.

    Collate functions look at the first item for its type, and then go through all items once a key,
    collating the entries. What they go through then has finished entries. Who only goes through the
    items, or only takes the first, gets the dict.
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
