"""Registers ``MoleculeBatch`` as a pytree node of torch, with field names as keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.batch.storage import Structure
from atompack_torch.fields import FieldInfo

Context = tuple[Structure, tuple[int, ...]]


class EntryKey(pytree.MappingKey[tuple[str, int], Any]):
    """Key of one molecule's tensor in a field that is a list: (name, number in the batch).

    It derives from ``MappingKey`` because torch.export only supports torch's own key classes.
    """

    __slots__ = ()

    def __str__(self) -> str:
        name, entry = self.key
        return f"[{name!r}][{entry}]"

    def get(self, mapping: Any) -> Any:
        """Returns the tensor in a batch."""
        name, entry = self.key
        return mapping[name][entry]


def _flatten(batch: MoleculeBatch) -> tuple[list[Tensor], Context]:
    structure, tensors = batch._disassemble()
    return tensors, (structure, tuple(batch._mask_rows.values()))


def _flatten_with_keys(batch: MoleculeBatch) -> tuple[list[tuple[Any, Tensor]], Context]:
    tensors, context = _flatten(batch)
    keys: list[Any] = []
    for name, value in batch._fields.items():
        if isinstance(value, Tensor):
            keys.append(pytree.MappingKey(name))
        else:
            keys += [EntryKey((name, i)) for i, v in enumerate(value) if isinstance(v, Tensor)]
    if batch._masks is not None:
        keys.append(pytree.GetAttrKey("_masks"))
    return list(zip(keys, tensors, strict=True)), context


def _unflatten(leaves: Iterable[Any], context: Context) -> MoleculeBatch:
    structure, rows = context
    return MoleculeBatch._assemble(structure, list(leaves), rows, None)


def _to_plain(context: Context) -> dict[str, Any]:
    """Converts a context to JSON values; the position of a tensor is an empty list."""
    structure, rows = context
    values = [
        [] if value is ... else [[] if entry is ... else [entry] for entry in value] or None
        for value in structure.values
    ]
    infos = [[name, *info] for name, info in structure.infos]
    return {
        "infos": infos,
        "values": values,
        "mask_rows": list(structure.mask_rows),
        "rows": list(rows),
    }


def _from_plain(plain: dict[str, Any]) -> Context:
    values: list[Any] = []
    for value in plain["values"]:
        if value == []:
            values.append(...)
        else:
            values.append(tuple(entry[0] if entry else ... for entry in value or ()))
    infos = tuple((name, FieldInfo(*info)) for name, *info in plain["infos"])
    structure = Structure(infos, tuple(values), tuple(plain["mask_rows"]))
    return structure, tuple(plain["rows"])


pytree.register_pytree_node(
    MoleculeBatch,
    _flatten,
    _unflatten,
    serialized_type_name="atompack_torch.MoleculeBatch",
    to_dumpable_context=_to_plain,
    from_dumpable_context=_from_plain,
    flatten_with_keys_fn=_flatten_with_keys,
)
