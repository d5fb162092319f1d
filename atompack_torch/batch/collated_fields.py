"""Collated fields by name, with levels and masks: the base of batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, KeysView, Sequence
from typing import Any, Generic, TypeVar, overload

import torch
from torch import Tensor

from atompack_torch.batch import storage
from atompack_torch.batch.field_setting import check_name, check_value, field_id
from atompack_torch.batch.storage import Contents, Entry, Structure, Value
from atompack_torch.errors import FieldError, UnknownFieldError
from atompack_torch.fields import (
    ALIASES,
    ATOM_INDICES,
    BUILTIN,
    BUILTINS,
    CANONICAL,
    COLUMNS,
    MASKS,
    NEIGHBORS,
    RESERVED,
    STRUCTURE,
    TRIPLETS,
    FieldInfo,
    Level,
    centers_of,
    prefixed_id,
    similar_names,
)
from atompack_torch.options import check_choice

_MAX_SHOWN = 20

FieldValue = TypeVar("FieldValue", covariant=True)
Default = TypeVar("Default")


def unknown_field(name: str, where: str, known: Collection[str]) -> UnknownFieldError:
    """Builds the error for a name that a batch or molecule lacks.

    Args:
        name: the unknown name.
        where: ``"batch"`` or ``"molecule"``.
        known: names of all fields.

    Returns:
        The error, with similar names as a hint.
    """
    similar = " or ".join(map(repr, similar_names(name, known)))
    hint = f": did you mean {similar}?" if similar else ""
    if name in NEIGHBORS:
        options = {"edge_vector": ", vectors=True"} | dict.fromkeys(TRIPLETS, ", triplets=True")
        hint = f": give the dataset neighbors=NeighborList(cutoff{options.get(name, '')})"
    shown = ", ".join(map(repr, [*known][:_MAX_SHOWN]))
    shown += ", ..." if len(known) > _MAX_SHOWN else ""
    return UnknownFieldError(f"no field {name!r} in this {where}{hint}; it has {shown}")


class FieldMapping(Generic[FieldValue]):
    """Base of classes that hold fields by name; subclasses define ``keys()`` and ``[name]``."""

    __slots__ = ()

    @overload
    def get(self, name: str) -> FieldValue | None: ...
    @overload
    def get(self, name: str, default: Default) -> FieldValue | Default: ...
    def get(self, name: str, default: object = None) -> object:
        """Returns a field, or ``default`` if there is no such field or it is absent.

        Args:
            name: any name of the field.
            default: returned in its place.

        Returns:
            The field or ``default``.
        """
        try:
            value = self[name]  # type: ignore[index]
        except UnknownFieldError:
            return default
        return default if value is None else value

    def items(self) -> list[tuple[str, FieldValue]]:
        """Returns (name, value) of all fields.

        Returns:
            Pairs in the order of ``keys()``.
        """
        return [(name, self[name]) for name in self.keys()]  # type: ignore[attr-defined, index]

    def values(self) -> list[FieldValue]:
        """Returns the values of all fields.

        Returns:
            Values in the order of ``keys()``.
        """
        return [self[name] for name in self.keys()]  # type: ignore[attr-defined, index]

    def __delattr__(self, name: str) -> None:
        del self[name]  # type: ignore[attr-defined]

    def __dir__(self) -> list[str]:
        fields = [name for name in self.keys() if name.isidentifier()]  # type: ignore[attr-defined]
        return sorted({*super().__dir__(), *fields})

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.keys())  # type: ignore[attr-defined]


Self = TypeVar("Self", bound="CollatedFields")


class CollatedFields(FieldMapping[Value]):
    """Base of ``MoleculeBatch``: fields, masks and their memory.

    It knows nothing of single molecules, so that the modules that check, join and convert fields
    can be written against it.

    Args:
        fields: name → tensor, or list with one entry per molecule.
        infos: name → scope, key and level.
        masks: (masked fields, B) bool, True where a molecule has the field.
        mask_rows: name → row in ``masks``; other fields are present for every molecule.
        arena: memory that the tensors are views of.
    """

    __slots__ = ("_arena", "_fields", "_infos", "_mask_rows", "_masks")

    _fields: dict[str, Value]
    _infos: dict[str, FieldInfo]  # shared between batches until a field is set
    _masks: Tensor | None  # (fields, B) bool
    _mask_rows: dict[str, int]  # fields without a row are present for every molecule
    _arena: Tensor | None

    positions: Tensor
    atomic_numbers: Tensor
    batch: Tensor
    ptr: Tensor
    n_atoms: Tensor
    index: Tensor
    # Labels and fields that datasets add, where a batch has them; custom properties are `Any`.
    energy: Tensor
    forces: Tensor
    charges: Tensor
    velocities: Tensor
    cell: Tensor
    stress: Tensor
    pbc: Tensor
    name: list[str | None]
    edge_index: Tensor
    edge_shift: Tensor
    edge_vector: Tensor
    triplet_index: Tensor
    triplet_edges: Tensor
    features: Tensor
    source: Tensor
    # True except for padding.
    molecule_mask: Tensor
    atom_mask: Tensor
    edge_mask: Tensor

    def __init__(
        self,
        fields: dict[str, Value],
        infos: dict[str, FieldInfo],
        masks: Tensor | None = None,
        mask_rows: dict[str, int] | None = None,
        arena: Tensor | None = None,
    ) -> None:
        # Sets the slots directly: __setattr__ of batches sets fields.
        _set_fields(self, fields)
        set_infos(self, infos)
        _set_masks(self, masks)
        _set_mask_rows(self, mask_rows if mask_rows is not None else {})
        _set_arena(self, arena)

    def _find(self, name: str) -> str | None:
        """Returns the listed name of a field, given that, an alias, or the name with its scope."""
        if name in self._fields:
            return name
        if name in ALIASES:
            return ALIASES[name]
        if not isinstance(name, str):
            raise TypeError(f"field: expected a name (str), got {type(name).__name__}")
        wanted = prefixed_id(name)
        for listed, info in self._infos.items() if wanted else ():
            if info[:2] == wanted:
                return listed
        if wanted is not None or name in CANONICAL:
            return None
        # A property whose key is the name of a method is listed with its scope.
        named = [n for n, info in self._infos.items() if info.key == name and info.scope != BUILTIN]
        return named[0] if len(named) == 1 else None

    def _resolve_name(self, name: str) -> str:
        found = self._find(name)
        if found is None:
            raise unknown_field(name, "batch", self._fields)
        return found

    def keys(self) -> KeysView[str]:
        """Returns the names of all fields.

        Returns:
            A view of the names, in the order of the tensors.
        """
        return self._fields.keys()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def __len__(self) -> int:
        """Number B of molecules."""
        return len(self._fields["n_atoms"])

    def __getattr__(self, name: str) -> Any:
        if name == "_fields":  # of an object that was made without __init__
            raise AttributeError(name)
        try:
            return self._fields[name]
        except KeyError:
            pass
        found = None if name.startswith("__") else self._find(name)
        if found is None:
            for level, mask in MASKS.items():
                if name == mask:  # of a batch without padding
                    rows = {"molecule": "n_atoms", "atom": "atomic_numbers", "edge": "edge_index"}
                    like = self._fields[self._resolve_name(rows[level])]
                    n_rows = like.shape[-1]  # type: ignore[union-attr]
                    return torch.ones(n_rows, dtype=torch.bool, device=self.ptr.device)
            raise AttributeError(str(unknown_field(name, "batch", self._fields)))
        return self._fields[found]

    def level(self, name: str) -> Level:
        """Returns the level of a field: ``"molecule"``, ``"atom"``, ``"edge"`` or ``"triplet"``.

        A field has one row for each molecule, atom, edge or triplet of the batch.

        Args:
            name: any name of the field.

        Returns:
            The level.

        Raises:
            FieldError: there is no such field (a KeyError as well).
        """
        return self._infos[self._resolve_name(name)].level

    def mask(self, name: str) -> Tensor:
        """Returns the mask (B,) bool of a field: True for the molecules that have it.

        Args:
            name: any name of the field.

        Returns:
            A view of the stored mask, or a new tensor if no molecule lacks the field.

        Raises:
            FieldError: there is no such field (a KeyError as well).
        """
        row = self._mask_rows.get(self._resolve_name(name))
        if row is None or self._masks is None:
            return torch.ones(len(self), dtype=torch.bool, device=self.ptr.device)
        return self._masks[row]

    def __setattr__(self, name: str, value: Tensor | Sequence[Entry]) -> None:
        self[name] = value

    def __setitem__(self, name: str, value: Tensor | Sequence[Entry]) -> None:
        """Sets a field; the level of a new one follows from its first dimension.

        Args:
            name: as for ``set_field``.
            value: as for ``set_field``.

        Raises:
            TypeError: the value is neither a tensor nor a list of strings.
            FieldError: the first dimension is neither B nor N, or B equals N (``set_field`` takes
                the level then), or the name belongs to something else.
        """
        check_name(name)
        found = self._find(name)
        if found is not None:
            return self.set_field(found, value, self._infos[found].level)
        if name in BUILTINS:
            return self.set_field(name, value, BUILTINS[name].level)
        n_atoms = len(self._fields["positions"])
        rows = value.shape[0] if isinstance(value, Tensor) and value.dim() else None
        if n_atoms == len(self) == rows:
            raise FieldError(f"field {name!r}: one row an atom or a molecule? use set_field()")
        return self.set_field(name, value, "atom" if rows == n_atoms else "molecule")

    def __delitem__(self, name: str) -> None:
        """Removes a field; with ``edge_index``, all fields of edges and triplets.

        Args:
            name: any name of the field.

        Raises:
            TypeError: the name is not a string.
            FieldError: there is no such field (a KeyError as well), or every batch has it.
        """
        found = self._resolve_name(name)
        if found in STRUCTURE:
            raise FieldError(f"field {name!r}: expected one that a batch may lack")
        for other in [found, *_needing(self, found)]:
            del self._fields[other]
        kept = self._fields.keys()
        set_infos(self, {key: info for key, info in self._infos.items() if key in kept})
        _set_mask_rows(self, {key: row for key, row in self._mask_rows.items() if key in kept})

    def set_field(self, name: str, value: Tensor | Sequence[Entry], level: Level) -> None:
        """Sets a field; an existing one keeps its mask, a new one is present for all molecules.

        Args:
            name: a field of the batch, a label, or a new name (``properties/KEY`` and
                ``atom_properties/KEY`` for keys that mean something else by themselves).
            value: a tensor on the batch's device with B rows (level ``"molecule"``) or N rows
                (``"atom"``), for labels of their shape; or a list of B strings or None. Fields of
                edges and triplets can be replaced by others of the same shape.
            level: ``"molecule"``, ``"atom"``, ``"edge"`` or ``"triplet"``.

        Raises:
            TypeError: the name is not a string, or the value neither a tensor nor a list of
                strings.
            ValueError: there is no such level.
            FieldError: the length, shape, dtype, device or level is not that of the field, or the
                name belongs to the batch itself.
        """
        check_name(name)
        check_choice("level", level, ("molecule", "atom", "edge", "triplet"))
        name = self._find(name) or name
        known = self._infos.get(name)
        expected = known.level if known else BUILTINS[name].level if name in BUILTINS else level
        if known is None and name in RESERVED - BUILTINS.keys():
            raise FieldError(f"field {name!r}: the name belongs to the batch itself")
        if level != expected:
            raise FieldError(f"field {name!r}: expected level {expected!r}, got {level!r}")
        if known is None and level in ("edge", "triplet"):
            raise FieldError(f"field {name!r}: edges and triplets are made by datasets, not set")
        checked = check_value(self, name, value, level)
        info = known or FieldInfo(*field_id(name, level), level)
        set_infos(self, self._infos | {name: info})
        self._fields[name] = checked

    def _disassemble(self) -> tuple[Structure, list[Tensor]]:
        structure, tensors = storage.disassemble(self._fields, self._infos, self._mask_rows)
        return structure, tensors if self._masks is None else [*tensors, self._masks]

    @classmethod
    def _assemble(
        cls: type[Self],
        structure: Structure,
        tensors: Sequence[Tensor],
        rows: Iterable[int],
        arena: Tensor | None,
    ) -> Self:
        fields = storage.assemble(structure, tensors)
        mask_rows = dict(zip(structure.mask_rows, rows, strict=True))
        masks = tensors[-1] if mask_rows else None
        return cls(fields, dict(structure.infos), masks, mask_rows, arena)

    def _map_tensors(self: Self, step: Callable[[Tensor], Tensor]) -> Self:
        structure, tensors = self._disassemble()
        moved, arena = storage.move(tensors, self._arena, step)
        return self._assemble(structure, moved, self._mask_rows.values(), arena)

    def _cast(self: Self, dtype: torch.dtype) -> Self:
        def cast(tensor: Tensor) -> Tensor:
            return tensor.to(dtype) if tensor.is_floating_point() else tensor

        def cast_value(name: str, value: Value) -> Value:
            if name == "energy":
                return value
            if isinstance(value, Tensor):
                return cast(value)
            return [cast(v) if isinstance(v, Tensor) else v for v in value]

        fields = {name: cast_value(name, value) for name, value in self._fields.items()}
        return type(self)(fields, self._infos, self._masks, self._mask_rows, self._arena)

    def _storage_owners(self) -> list[Tensor]:
        """Returns one tensor for each block of memory: the arena, and each tensor outside it."""
        _, tensors = self._disassemble()
        places = storage.locate(tensors, self._arena)
        outside = [t for t, place in zip(tensors, places, strict=True) if place is None]
        return outside if self._arena is None else [self._arena, *outside]

    def to(
        self: Self,
        device: torch.device | str | int | torch.dtype | None = None,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
    ) -> Self:
        """Moves the batch to a device, the arena in one transfer, or casts it.

        Args:
            device: target device; None keeps the device. A dtype is taken as ``dtype``.
            dtype: dtype of all floating fields except ``energy``; None keeps them.
            non_blocking: return before copies from pinned memory to a CUDA device are complete.

        Returns:
            A new batch, or this one if there is nothing to do.

        Raises:
            TypeError: the dtype is not one of torch.
            ValueError: it is not a floating one.
        """
        if isinstance(device, torch.dtype):
            device, dtype = None, device
        if dtype is not None and not isinstance(dtype, torch.dtype):
            raise TypeError(f"dtype: expected a dtype of torch, got {dtype!r}")
        if dtype is not None and not dtype.is_floating_point:
            raise ValueError(f"dtype: expected a floating dtype, got {dtype}")
        target = self.ptr.device if device is None else torch.device(device)
        moved = self
        if dtype is not None:
            moved = self._cast(dtype)
        if target == self.ptr.device:
            return moved
        return moved._map_tensors(lambda tensor: tensor.to(target, non_blocking=non_blocking))

    def pin_memory(self: Self, device: torch.device | str | None = None) -> Self:
        """Copies the batch into page-locked memory, with a single allocation for the arena.

        Args:
            device: ignored; torch pins memory for the current accelerator.

        Returns:
            The copy.
        """
        return self._map_tensors(lambda tensor: tensor.pin_memory())

    def clone(self: Self) -> Self:
        """Copies the batch."""
        return self._map_tensors(torch.clone)

    def __deepcopy__(self: Self, memo: dict[int, Any]) -> Self:
        def copied(tensor: Tensor) -> Tensor:  # a leaf has gradients of its own, as in torch
            leaf = tensor.detach().clone().requires_grad_(tensor.requires_grad)
            return leaf if tensor.is_leaf else tensor.clone()

        return self._map_tensors(copied)

    def share_memory_(self: Self) -> Self:
        """Moves the batch to shared memory, in place, and returns it."""
        for tensor in self._storage_owners():
            tensor.untyped_storage().share_memory_()  # moves all its views
        return self

    def record_stream(self, stream: torch.Stream) -> None:
        """Keeps the memory from being reused before ``stream`` has finished with it (CUDA).

        Args:
            stream: a stream that uses the batch.
        """
        for tensor in self._storage_owners():
            tensor.record_stream(stream)


def contents_of(batch: CollatedFields) -> Contents:
    """Returns everything that a batch consists of, for other packages; nothing is copied."""
    return Contents(batch._fields, batch._infos, batch._masks, batch._mask_rows, batch._arena)


def _needing(batch: CollatedFields, name: str) -> list[str]:
    """Returns the fields whose rows only this one assigns to molecules."""
    levels = {key: info.level for key, info in batch._infos.items() if key != name}
    if name == "edge_index":
        return [key for key, level in levels.items() if key in NEIGHBORS or level == "edge"]
    rows = ("edge", "triplet")
    return [key for key, level in levels.items() if level in rows and centers_of(key) == name]


def first_rows(batch: CollatedFields, name: str) -> Tensor:
    """Returns the first row of each molecule in a field, and the end: (B + 1,) int64."""
    level = batch._infos[name].level
    if level == "atom":
        return batch.ptr
    numbers = torch.arange(len(batch) + 1, device=batch.ptr.device)
    if level == "molecule":
        return numbers
    centers_name = centers_of(name)
    centers = batch._fields[centers_name]
    assert isinstance(centers, Tensor)
    centers = centers[0] if centers_name in COLUMNS else centers
    return torch.searchsorted(batch.batch[centers], numbers)


def first_targets(batch: CollatedFields, name: str) -> Tensor | None:
    """Returns what the numbers in a field start from, for each molecule: (B,) int64.

    That is the first atom for atom indices and the first edge for numbers of edges; None for fields
    of other values.
    """
    if name == "triplet_edges":
        return first_rows(batch, "edge_index")[:-1]
    return batch.ptr[:-1] if name in ATOM_INDICES else None


_set_fields, set_infos, _set_masks, _set_mask_rows, _set_arena = (
    getattr(CollatedFields, slot).__set__
    for slot in ("_fields", "_infos", "_masks", "_mask_rows", "_arena")
)
