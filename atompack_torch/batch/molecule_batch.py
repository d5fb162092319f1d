"""The one batch type of all sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView, Sequence
from typing import Any, Literal, overload

import torch
from torch import Tensor

from atompack_torch._core import view_arena
from atompack_torch.batch import collation, storage
from atompack_torch.batch.field_mapping import FieldMapping, unknown_field
from atompack_torch.batch.field_setting import check_name, check_value, field_id
from atompack_torch.batch.molecule import Molecule
from atompack_torch.batch.storage import Place, Structure, Value
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ALIASES,
    BUILTIN,
    BUILTINS,
    CANONICAL,
    EDGES,
    RESERVED,
    FieldInfo,
    Level,
    centers_of,
    prefixed_id,
)
from atompack_torch.options import check_choice


class MoleculeBatch(FieldMapping):
    """B molecules of N atoms in all, collated.

    Tensors are attributes and items: ``b.forces``, ``b["forces"]``. Always there are ``positions``
    (N, 3), ``atomic_numbers`` (N,) int64, ``batch`` (N,) int64 (atom → molecule), ``ptr`` (B + 1,)
    int64 (first atom of each molecule), ``n_atoms`` (B,) int64 and ``index`` (B,) int64 (number in
    the data set); besides these, the labels and custom properties of the source. Values and units
    are those stored; ``energy`` is float64 always. A value that a molecule does not have is NaN
    (integers 0, booleans False, strings None), and ``mask(name)`` is False there; a cell that a
    molecule does not have is zeros, so that edge shifts times cells stay finite. What differs in
    shape inside a batch is a list with one tensor a molecule.

    The tensors of a batch that was read are views of one block of memory, the arena: it crosses to
    another process or device as one piece.
    """

    __slots__ = ("_arena", "_fields", "_infos", "_mask_rows", "_masks")

    _fields: dict[str, Value]
    _infos: dict[str, FieldInfo]  # shared between batches until a field is set
    _masks: Tensor | None  # (fields, B) bool
    _mask_rows: dict[str, int]  # fields without a row are there for every molecule
    _arena: Tensor | None

    def __init__(
        self,
        fields: dict[str, Value],
        infos: dict[str, FieldInfo],
        masks: Tensor | None = None,
        mask_rows: dict[str, int] | None = None,
        arena: Tensor | None = None,
    ) -> None:
        # Around __setattr__, which sets fields.
        _set_fields(self, fields)
        _set_infos(self, infos)
        _set_masks(self, masks)
        _set_mask_rows(self, mask_rows if mask_rows is not None else {})
        _set_arena(self, arena)

    # Names

    def _find(self, name: str) -> str | None:
        """The listed name of a field that may be named by an alias or with its scope."""
        if name in self._fields:
            return name
        if name in ALIASES:
            return ALIASES[name]
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
        """Names of all fields."""
        return self._fields.keys()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def level(self, name: str) -> Level:
        """How a field collates: a row for each molecule, atom, edge or triplet."""
        return self._infos[self._resolve_name(name)].level

    def _first_rows(self, name: str) -> Tensor:
        """(B + 1,) int64: where the rows of each molecule begin."""
        level = self._infos[name].level
        if level == "atom":
            return self._fields["ptr"]  # type: ignore[return-value]
        numbers = torch.arange(len(self) + 1, device=self.ptr.device)
        if level == "molecule":
            return numbers
        centers = self._fields[centers_of(name)]
        centers = centers[0] if name in EDGES else centers
        return torch.searchsorted(self.batch[centers], numbers)

    def mask(self, name: str) -> Tensor:
        """(B,) bool: which molecules have this field."""
        row = self._mask_rows.get(self._resolve_name(name))
        if row is None or self._masks is None:
            return torch.ones(len(self), dtype=torch.bool, device=self.ptr.device)
        return self._masks[row]

    # Items

    def __len__(self) -> int:
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
            raise AttributeError(str(unknown_field(name, "batch", self._fields)))
        return self._fields[found]

    @overload
    def __getitem__(self, item: str) -> Any: ...
    @overload
    def __getitem__(self, item: int) -> Molecule: ...
    def __getitem__(self, item: str | int) -> Any:
        """A field by name, or a molecule by number (a view)."""
        if item in self._fields:
            return self._fields[item]
        if isinstance(item, str):
            return self._fields[self._resolve_name(item)]
        if not hasattr(item, "__index__"):
            raise TypeError(f"a batch takes names and numbers, not {type(item).__name__}")
        number = item.__index__()
        if not -len(self) <= number < len(self):
            raise IndexError(f"molecule {number} is out of range for a batch of {len(self)}")
        return Molecule._view(self, number % len(self))

    def __iter__(self) -> Iterator[Molecule]:
        return (self[i] for i in range(len(self)))

    def __setattr__(self, name: str, value: Value) -> None:
        self[name] = value

    def __setitem__(self, name: str, value: Value) -> None:
        """Sets a field; a new one is per atom or per molecule by its first dimension.

        Raises:
            TypeError: neither a tensor nor a list of strings.
            FieldError: the first dimension is neither, the name belongs to something else, or
                the batch has as many atoms as molecules (``set_field`` then says which).
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

    def set_field(self, name: str, value: Value, level: Level) -> None:
        """Sets a field; one that was there keeps its mask, a new one has none.

        Args:
            name: of a field that is there, of a label, or a new one (``properties/KEY`` and
                ``atom_properties/KEY`` for a key that is the name of something else).
            value: a tensor on the batch's device, of B rows (level ``"molecule"``) or N
                (``"atom"``), for labels of their shape; or B strings, None among them. Fields of
                edges and triplets can be replaced by others of the same shape.
            level: ``"molecule"``, ``"atom"``, ``"edge"`` or ``"triplet"``.

        Raises:
            TypeError: no name; neither a tensor nor a list of strings.
            ValueError: no such level.
            FieldError: another length, shape, dtype, device or level than the field has to have;
                the name belongs to the batch itself.
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
            raise FieldError(f"field {name!r}: edges and triplets are made by data sets, not set")
        checked = check_value(self, name, value, level)
        info = known or FieldInfo(*field_id(name, level), level)
        _set_infos(self, self._infos | {name: info})
        self._fields[name] = checked

    # All tensors at once

    def _disassemble(self) -> tuple[Structure, list[Tensor]]:
        structure, tensors = storage.disassemble(self._fields, self._infos, self._mask_rows)
        return structure, tensors if self._masks is None else [*tensors, self._masks]

    @classmethod
    def _assemble(
        cls,
        structure: Structure,
        tensors: Sequence[Tensor],
        rows: Iterable[int],
        arena: Tensor | None,
    ) -> MoleculeBatch:
        fields = storage.assemble(structure, tensors)
        mask_rows = dict(zip(structure.mask_rows, rows, strict=True))
        masks = tensors[-1] if mask_rows else None
        return cls(fields, dict(structure.infos), masks, mask_rows, arena)

    def _map_tensors(self, step: Callable[[Tensor], Tensor]) -> MoleculeBatch:
        structure, tensors = self._disassemble()
        moved, arena = storage.move(tensors, self._arena, step)
        return self._assemble(structure, moved, self._mask_rows.values(), arena)

    def to(
        self,
        device: torch.device | str | int | torch.dtype | None = None,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
    ) -> MoleculeBatch:
        """The batch on another device: one transfer for the arena, whatever it holds.

        ``dtype`` casts every floating field but ``energy``, as that of the data sets does.
        """
        if isinstance(device, torch.dtype):
            device, dtype = None, device
        target = self.ptr.device if device is None else torch.device(device)
        moved = self
        if dtype is not None:
            moved = self._cast(dtype)
        if target == self.ptr.device:
            return moved
        return moved._map_tensors(lambda tensor: tensor.to(target, non_blocking=non_blocking))

    def _cast(self, dtype: torch.dtype) -> MoleculeBatch:
        def cast(tensor: Tensor) -> Tensor:
            return tensor.to(dtype) if tensor.is_floating_point() else tensor

        def cast_value(name: str, value: Value) -> Value:
            if name == "energy":
                return value
            if isinstance(value, Tensor):
                return cast(value)
            return [cast(v) if isinstance(v, Tensor) else v for v in value]

        fields = {name: cast_value(name, value) for name, value in self._fields.items()}
        return MoleculeBatch(fields, self._infos, self._masks, self._mask_rows, self._arena)

    def pin_memory(self, device: torch.device | str | None = None) -> MoleculeBatch:
        """A copy in page-locked memory: one allocation."""
        return self._map_tensors(lambda tensor: tensor.pin_memory())

    def clone(self) -> MoleculeBatch:
        """A copy."""
        return self._map_tensors(torch.clone)

    def __deepcopy__(self, memo: dict[int, Any]) -> MoleculeBatch:
        return self.clone()

    def share_memory_(self) -> MoleculeBatch:
        """Moves the batch to shared memory, in place."""
        for tensor in self._storage_owners():
            tensor.untyped_storage().share_memory_()  # all views of it follow
        return self

    def record_stream(self, stream: torch.Stream) -> None:
        """Tells the allocator that ``stream`` uses this memory (CUDA)."""
        for tensor in self._storage_owners():
            tensor.record_stream(stream)

    def _storage_owners(self) -> list[Tensor]:
        """One tensor for each piece of memory: the arena, and what lies outside of it."""
        _, tensors = self._disassemble()
        outside = [t for t in tensors if storage.place_of(t, self._arena) is None]
        return outside if self._arena is None else [self._arena, *outside]

    def __reduce__(self) -> tuple[Callable[..., MoleculeBatch], tuple[Any, ...]]:
        structure, tensors = self._disassemble()
        rows = tuple(self._mask_rows.values())
        places = [storage.place_of(tensor, self._arena) for tensor in tensors]
        outside = [t for t, place in zip(tensors, places, strict=True) if place is None]
        arena = self._arena if len(outside) < len(tensors) else None
        return _restore, (structure, rows, arena, places, outside)

    # Other forms

    def to_dict(
        self, preset: Literal["pyg", "fairchem", "nvalchemi"] | None = None
    ) -> dict[str, Value]:
        """A plain dict of the fields, as they are, or as another library has them.

        ``"pyg"`` renames and copies nothing. ``"fairchem"`` is what ``AtomicData.from_dict`` takes:
        neighbors in row 0 of ``edge_index`` (vectors are pos[row 0] - pos[row 1] + offsets cell);
        ``cell``, ``cell_offsets``, ``energy``, ``forces`` and ``stress`` in the dtype of ``pos``;
        ``charge``, ``spin``, ``fixed``, ``tags`` (int64), ``sid`` and ``dataset`` (strings) of
        the custom properties so named, else 0, the ``index``, and no ``dataset``. ``"nvalchemi"``:
        ``neighbor_list`` (E, 2), ``neighbor_list_shifts`` (E, 3), ``energy`` (B, 1).
        """
        from atompack_torch.batch.presets import to_dict

        return to_dict(self, preset)

    def to_pyg(self) -> Any:
        """A ``torch_geometric.data.Batch`` over the same tensors."""
        from atompack_torch.batch.conversions import to_pyg

        return to_pyg(self)

    def to_ase(self) -> list[Any]:
        """A list of ``ase.Atoms``; labels go to a ``SinglePointCalculator``, only where present."""
        from atompack_torch.batch.conversions import to_ase

        return to_ase(self)

    @classmethod
    def from_ase(cls, atoms: Sequence[Any]) -> MoleculeBatch:
        """A batch of ``ase.Atoms``, in float64.

        Numbers, strings and arrays of numbers in ``info`` become molecule properties, numeric
        ``arrays`` atom properties; of a calculator only the results it holds are taken, those
        without a label of their own as properties (``free_energy``, ``magmoms``, ...). A zero cell
        means that there is none. Stress keeps the sign of ASE and becomes 3 x 3; velocities are
        momenta over masses, in ASE's unit Å / (Å sqrt(u / eV)). There is no place
        for strings per atom, nested ``info`` and constraints.
        """
        from atompack_torch.batch.conversions import from_ase

        return from_ase(atoms)

    @classmethod
    def from_molecules(cls, molecules: Sequence[Molecule]) -> MoleculeBatch:
        """Joins molecules; a field that only some have is masked for the others."""
        from atompack_torch.batch.joining import join

        return join(molecules)

    def __repr__(self) -> str:
        def describe(value: Value) -> str:
            if isinstance(value, Tensor):
                return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
            return f"list of {len(value)}"

        lines = [f"  {name}: {describe(value)}" for name, value in self._fields.items()]
        head = f"{len(self)} molecules, {len(self._fields['positions'])} atoms"
        return "MoleculeBatch(" + head + "\n" + "\n".join(lines[:30]) + "\n)"


_set_fields, _set_infos, _set_masks, _set_mask_rows, _set_arena = (
    getattr(MoleculeBatch, slot).__set__
    for slot in ("_fields", "_infos", "_masks", "_mask_rows", "_arena")
)


def _restore(
    structure: Structure,
    rows: tuple[int, ...],
    arena: Tensor | None,
    places: list[Place | None],
    outside: list[Tensor],
) -> MoleculeBatch:
    views = view_arena(arena, [place for place in places if place]) if arena is not None else []
    inside, rest = iter(views), iter(outside)
    tensors = [next(inside) if place else next(rest) for place in places]
    return MoleculeBatch._assemble(structure, tensors, rows, arena)


collation.register(MoleculeBatch)
