"""Batches of molecules, and single molecules."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.data._utils.collate import default_collate_fn_map

from atompack_torch._core import view_arena
from atompack_torch.batch import conversions, html, interop, joining, padding, storage
from atompack_torch.batch.collated_fields import (
    CollatedFields,
    FieldMapping,
    contents_of,
    first_rows,
    first_targets,
    unknown_field,
)
from atompack_torch.batch.field_setting import check_name, fields_from_values, molecule_value
from atompack_torch.batch.storage import Contents, Place, Structure, Value
from atompack_torch.errors import CorruptFileError, FieldError, UnknownFieldError, printable
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    CANONICAL,
    COLUMNS,
    DERIVED,
    MOLECULE_PROPERTY,
    PREFIXES,
    RESERVED,
    STRUCTURE,
    STRUCTURE_INFO,
    FieldInfo,
    Level,
    level_of_derived,
    prefixed_id,
)
from atompack_torch.options import check_choice, short_list

if TYPE_CHECKING:
    import ase
    import jraph
    import torch_sim
    from torch_geometric.data import Batch


ArrayLevel = Literal["atom", "molecule"]


class Molecule(FieldMapping[Tensor | str]):
    """A single molecule: views of its rows in the fields of a batch.

    Fields are attributes and items: ``molecule.forces``, ``molecule["forces"]``; an absent label is
    None. With n atoms, fields of atoms have shape (n, ...), scalars are 0-d tensors and strings
    ``str``. ``edge_index`` refers to the molecule's own atoms. Setting or removing a field does not
    change the batch of which the molecule is a row.
    """

    __slots__ = ("_batch", "_faults", "_row")

    _batch: MoleculeBatch
    _row: int
    _faults: Mapping[str, str]  # damaged values, and their errors

    positions: Tensor
    atomic_numbers: Tensor
    # None where the molecule lacks the label.
    energy: Tensor | None
    forces: Tensor | None
    charges: Tensor | None
    velocities: Tensor | None
    cell: Tensor | None
    stress: Tensor | None
    pbc: Tensor | None
    name: str | None

    def __init__(
        self,
        positions: Any,
        atomic_numbers: Any,
        *,
        properties: Mapping[str, Any] | None = None,
        atom_properties: Mapping[str, Any] | None = None,
        **labels: Any,
    ) -> None:
        """Builds a molecule from values in memory.

        Values may be tensors, NumPy arrays, numbers or nested lists. Labels are ``energy`` (),
        ``forces`` (n, 3), ``charges`` (n,), ``velocities`` (n, 3), ``cell`` (3, 3), ``stress``
        (3, 3), ``pbc`` (3,) bool and ``name`` (a string); None is an absent one. Units are not
        converted; by convention they are Å, eV and their combinations.

        Args:
            positions: (n, 3), floating.
            atomic_numbers: (n,) integers.
            properties: custom values of the molecule by key: numbers, strings, None, tensors.
            atom_properties: custom values of the atoms by key: tensors with n rows.
            **labels: ``energy``, ``forces`` and so on, as described above.

        Raises:
            TypeError: there is no such label.
            FieldError: a value has the wrong shape or type.
        """
        contents = fields_from_values(
            positions, atomic_numbers, labels, properties or {}, atom_properties or {}
        )
        set_row(self, MoleculeBatch(*contents), 0, {})

    @classmethod
    def from_ase(cls, atoms: ase.Atoms, arrays: ArrayLevel = "atom") -> Molecule:
        """Builds a molecule from an ``ase.Atoms``; see ``MoleculeBatch.from_ase``.

        Args:
            atoms: the structure.
            arrays: level of the properties that ``atoms.arrays`` become.

        Returns:
            The molecule.

        Raises:
            TypeError: it is something else.
            ValueError: there is no such level.
            FieldError: ``arrays="molecule"``, and an array and ``info`` share a key.
        """
        if not hasattr(atoms, "arrays"):
            kind = type(atoms).__name__
            raise TypeError(
                f"atoms: expected an ase.Atoms, got {kind}: MoleculeBatch.from_ase takes a list"
            )
        return _molecule_of(conversions.parts_of(atoms), arrays)

    def to_ase(self) -> ase.Atoms:
        """Converts the molecule to an ``ase.Atoms``; see ``MoleculeBatch.to_ase``.

        Returns:
            The structure.

        Raises:
            FieldError: velocities of an atom whose mass is unknown.
        """
        return conversions.atoms_of(conversions.to_parts(self))

    def _repr_html_(self) -> str:
        return html.molecule_html(self)

    def __reduce__(self) -> tuple[Callable[..., Molecule], tuple[Any, ...]]:
        return molecule_at, (batch_of_one(self), 0, dict(self._faults))

    def __len__(self) -> int:
        """Number n of atoms."""
        return int(self._batch.n_atoms[self._row])

    def keys(self) -> list[str]:
        """Returns the names of the fields that are present.

        Returns:
            Names in the order of the batch, then those of damaged values.
        """
        present = [
            name
            for name in self._batch.keys()
            if name in ("positions", "atomic_numbers")
            or (name not in STRUCTURE and bool(self._batch.mask(name)[self._row]))
        ]
        return [*present, *self._faults]

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def level(self, name: str) -> Level:
        """Returns the level of a field: ``"molecule"``, ``"atom"``, ``"edge"`` or ``"triplet"``.

        Args:
            name: any name of the field.

        Returns:
            The level.

        Raises:
            FieldError: there is no such field (a KeyError as well).
        """
        return self._batch.level(self._find(name) or name)

    def _find(self, name: str) -> str | None:
        """Returns the listed name of a field; its scope may be omitted if it is the only one here.

        Other molecules of the batch may have the key in the other scope.
        """
        found = self._batch._find(name)
        if found is None and name not in CANONICAL:
            scoped = {prefix + name for prefix in PREFIXES.values()} & {*self.keys()}
            found = scoped.pop() if len(scoped) == 1 else None
        return found

    def __getitem__(self, name: str) -> Any:
        """Returns a field, or None if this molecule lacks it.

        Args:
            name: any name of the field.

        Returns:
            A view of the rows of a tensor, a string, or None.

        Raises:
            TypeError: the name is not a string.
            CorruptFileError: the stored value is damaged.
            FieldError: there is no such field (a KeyError as well).
        """
        if not isinstance(name, str):
            raise TypeError(
                f"a molecule takes names of fields, not {type(name).__name__}; where a collate "
                "function got one molecule, the loader has lost its batch sampler (Ray's "
                "prepare_data_loader replaces it, unless add_dist_sampler=False)"
            )
        found = self._find(name)
        if found is None and name in self._faults:
            found = name  # the damaged value itself is not kept
        if found is None:
            if name in BUILTINS:
                return None
            raise unknown_field(name, "molecule", self.keys())
        return self._value(found)

    def _value(self, name: str) -> Any:
        if name in self._faults:
            raise CorruptFileError(self._faults[name])
        batch, row = self._batch, self._row
        info, value = batch._infos[name], batch._fields[name]
        if name not in STRUCTURE and not bool(batch.mask(name)[row]):
            return None
        if name == "ptr":
            return value[row : row + 2]
        if info.level == "molecule" or not isinstance(value, Tensor):
            return value[row]
        first, last = first_rows(batch, name)[row : row + 2].tolist()
        rows = value[:, first:last] if name in COLUMNS else value[first:last]
        targets = first_targets(batch, name)
        return rows if targets is None else rows - targets[row]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        """Sets a field of this molecule alone: the batch that it comes from does not change.

        Args:
            name: a field of the molecule, a label, or a new key, which becomes a property of the
                molecule (``set_property`` also makes properties of its atoms).
            value: as in the constructor; None removes a label or property.

        Raises:
            TypeError: the name is not a string.
            FieldError: a value of this shape or type cannot be stored, a new key could be a
                property of the atoms too, or datasets make the field.
        """
        check_name(name)
        found = self._find(name)
        if found is not None:
            return self._set(found, self._batch._infos[found], value)
        if name in BUILTINS:
            return self._set(name, FieldInfo(BUILTIN, name, BUILTINS[name].level), value)
        named = prefixed_id(name)
        if named is None and np.shape(value)[:1] == (len(self),):
            raise FieldError(f"field {name!r}: one row an atom? use set_property(level=)")
        is_atomic = named is not None and named.scope == ATOM_PROPERTY
        level: Literal["molecule", "atom"] = "atom" if is_atomic else "molecule"
        self.set_property(name if named is None else named.key, value, level)

    def __delitem__(self, name: str) -> None:
        """Removes a field from this molecule alone.

        Args:
            name: any name of the field.

        Raises:
            TypeError: the name is not a string.
            FieldError: there is no such field (a KeyError as well), or every molecule has it.
        """
        check_name(name)
        if self._find(name) in STRUCTURE:
            raise FieldError(f"field {name!r}: expected one that a molecule may lack")
        if name not in self._faults and self.get(name) is None:
            raise unknown_field(name, "molecule", self.keys())
        self[name] = None

    def set_property(
        self, key: str, value: Any, level: Literal["molecule", "atom"] = "molecule"
    ) -> None:
        """Sets a custom property of this molecule alone.

        Args:
            key: its key, which may be that of a label.
            value: a number, string, array or tensor; with n rows for level ``"atom"``; None removes
                the property.
            level: ``"molecule"``: a property of the molecule; ``"atom"``: of its atoms.

        Raises:
            TypeError: the key is not a string.
            ValueError: there is no such level.
            FieldError: a value of this shape or type cannot be stored.
        """
        check_name(key)
        check_choice("level", level, ("molecule", "atom"))
        scope = ATOM_PROPERTY if level == "atom" else MOLECULE_PROPERTY
        with_scope = PREFIXES[scope] + key
        is_taken = key in RESERVED or key in self._batch.keys()
        name = self._batch._find(with_scope) or (with_scope if is_taken else key)
        self._set(name, FieldInfo(scope, key, level), value)

    def delete_property(self, key: str) -> None:
        """Removes a custom property from this molecule alone.

        Args:
            key: its key, with its scope (``properties/KEY``, ``atom_properties/KEY``) if both the
                molecule and its atoms have one of that key.

        Raises:
            TypeError: the key is not a string.
            FieldError: the molecule has no such property (a KeyError as well).
        """
        check_name(key)
        prefixes = [""] if prefixed_id(key) else PREFIXES.values()
        names = {self._batch._find(prefix + key) for prefix in prefixes} & {*self.keys()}
        if not names:
            raise unknown_field(key, "molecule", self.keys())
        if len(names) > 1:
            raise FieldError(f"field {key!r}: expected one of {short_list(sorted(names), 2)}")  # type: ignore[type-var]
        name = names.pop()
        self._set(name, self._batch._infos[name], None)  # type: ignore[index,arg-type]

    def _set(self, name: str, info: FieldInfo, value: Any) -> None:
        if name in STRUCTURE and name not in ("positions", "atomic_numbers"):
            raise FieldError(f"field {name!r}: the name belongs to the molecule itself")
        if info.level in ("edge", "triplet"):
            raise FieldError(f"field {name!r}: edges and triplets are made by datasets, not set")
        contents = contents_of_molecule(self)
        if value is not None or name in STRUCTURE:
            contents.fields[name] = molecule_value(name, info, value, len(self))
            contents.infos[name] = info
        elif name in contents.fields:
            del contents.fields[name], contents.infos[name]
        faults = {other: fault for other, fault in self._faults.items() if other != name}
        set_row(self, MoleculeBatch(*contents), 0, faults)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except UnknownFieldError as error:
            raise AttributeError(str(error)) from None

    def __repr__(self) -> str:
        labels = [name for name in self.keys() if name not in STRUCTURE and name not in DERIVED]
        return f"Molecule({len(self)} atoms, {short_list(labels, len(labels)) or 'no labels'})"


_set_batch, _set_faults, _set_row = (getattr(Molecule, slot).__set__ for slot in Molecule.__slots__)


def set_row(molecule: Molecule, batch: MoleculeBatch, row: int, faults: Mapping[str, str]) -> None:
    """Makes a molecule a view of a row of a batch.

    Args:
        molecule: the molecule, maybe a new one.
        batch: the batch.
        row: number in it.
        faults: damaged values of the molecule, and their errors.
    """
    # The slots directly: __setattr__ sets fields.
    _set_batch(molecule, batch)
    _set_row(molecule, row)
    _set_faults(molecule, faults)


def contents_of_molecule(molecule: Molecule) -> Contents:
    """Returns views of the present, undamaged fields of a molecule, as those of a batch."""
    batch, row = molecule._batch, molecule._row
    fields: dict[str, Value] = {name: molecule._value(name) for name in STRUCTURE}
    n_atoms = len(molecule)
    fields |= {
        "batch": torch.zeros(n_atoms, dtype=torch.int64, device=batch.ptr.device),
        "ptr": torch.tensor([0, n_atoms], device=batch.ptr.device),
        "n_atoms": batch.n_atoms[row : row + 1],
        "index": batch.index[row : row + 1],
    }
    infos = dict(STRUCTURE_INFO)
    for name in molecule.keys():
        if name in STRUCTURE or name in molecule._faults:
            continue
        value, infos[name] = molecule._value(name), batch._infos[name]
        per_molecule = infos[name].level == "molecule"
        if isinstance(value, Tensor):
            fields[name] = value.unsqueeze(0) if per_molecule else value
        else:
            fields[name] = [value]
    return Contents(fields, infos, None, {})


class MoleculeBatch(CollatedFields):
    """B molecules with N atoms in total, collated into tensors.

    Fields are attributes and items: ``batch.forces``, ``batch["forces"]``. Every batch has
    ``positions`` (N, 3), ``atomic_numbers`` (N,) int64, ``batch`` (N,) int64 (molecule of each
    atom), ``ptr`` (B + 1,) int64 (first atom of each molecule), ``n_atoms`` (B,) int64 and
    ``index`` (B,) int64 (number in the dataset), besides the labels and custom properties of the
    source. Values and units are those stored, the conventional ones Å and eV; ``energy`` is always
    float64. A value that a molecule lacks is NaN (integers 0, booleans False, strings None), and
    ``mask(name)`` is False there; a missing cell is zeros, so that products with edge shifts stay
    finite. A field whose shape differs within the batch is a list with one tensor per molecule.

    The tensors of a batch that was read are views of one block of memory, the arena, so that the
    batch moves to another process or device in a single transfer.
    """

    __slots__ = ()

    @overload
    def __getitem__(self, item: str) -> Any: ...
    @overload
    def __getitem__(self, item: int) -> Molecule: ...
    def __getitem__(self, item: str | int) -> Any:
        """Returns a field by name, or a molecule by number, as a view.

        Args:
            item: any name of a field, or an integer from -B to B - 1.

        Returns:
            A tensor, a list with one entry per molecule, or a ``Molecule``.

        Raises:
            TypeError: neither a string nor an integer.
            IndexError: there is no such molecule.
            FieldError: there is no such field (a KeyError as well).
        """
        if isinstance(item, str):
            found = item if item in self._fields else self._resolve_name(item)
            return self._fields[found]
        try:
            number = operator.index(item)
        except TypeError:
            raise TypeError(
                f"item: expected the name of a field or the number of a molecule, got {item!r}: "
                "apt.collate([batch[i] for i in numbers]) joins some molecules"
            ) from None
        if not -len(self) <= number < len(self):
            raise IndexError(f"molecule {number} is out of range for a batch of {len(self)}")
        return molecule_at(self, number % len(self), {})

    def __iter__(self) -> Iterator[Molecule]:
        return (self[i] for i in range(len(self)))

    def __reduce__(self) -> tuple[Callable[..., MoleculeBatch], tuple[Any, ...]]:
        structure, tensors = self._disassemble()
        rows = tuple(self._mask_rows.values())
        places = storage.locate(tensors, self._arena)
        outside = [t for t, place in zip(tensors, places, strict=True) if place is None]
        arena = self._arena if len(outside) < len(tensors) else None
        return restore_batch, (structure, rows, arena, places, outside)

    def to_dict(
        self, preset: Literal["pyg", "fairchem", "nvalchemi"] | None = None
    ) -> dict[str, Value]:
        """Returns the fields as a plain dict, optionally in the conventions of another library.

        Args:
            preset: None for the fields as they are. ``"pyg"`` renames fields and copies nothing.
                ``"fairchem"`` gives the fields of ``AtomicData.from_dict``: neighbors in row 0 of
                ``edge_index`` (vectors are pos[row 0] - pos[row 1] + offsets cell); ``cell``,
                ``cell_offsets``, ``energy``, ``forces`` and ``stress`` in the dtype of ``pos``;
                ``charge``, ``spin``, ``fixed``, ``tags`` (int64), ``sid`` and ``dataset``
                (strings) from the custom properties of these names, else 0, the ``index``, and no
                ``dataset``. ``"nvalchemi"``: ``neighbor_list`` (E, 2), ``neighbor_list_shifts``
                (E, 3), ``energy`` (B, 1).

        Returns:
            Name to tensor or list.

        Raises:
            ValueError: there is no such preset.
            FieldError: a property cannot be converted as the preset requires.
        """
        return interop.to_dict(self, preset)

    def to_pyg(self) -> Batch:
        """Returns a ``torch_geometric.data.Batch`` over the same tensors.

        Returns:
            The batch, with the names of torch-geometric; ``triplet_edges`` is (T, 2).
        """
        return interop.to_pyg(self)

    def padded_to(self, molecules: int, atoms: int, edges: int | None = None) -> MoleculeBatch:
        """Pads the batch to a static shape, for CUDA graphs and compilers.

            padded = batch.padded_to(**sampler.shape_of(batch)._asdict())
            loss = (padded.molecule_mask * (energy - padded.energy) ** 2).sum()

        All padding belongs to one dummy molecule, which follows the molecules: its atoms lie on a
        line, 1 apart, with the element of the first atom; its edges lead from its first atom to its
        second, so that no distance is 0; its cell is the identity, ``index`` is -1. Labels of the
        padding are 0 and masked, not NaN: products with ``atom_mask`` and the other masks, and
        their gradients, stay finite. Further molecules are empty. A batch that has this shape
        already is not padded, but gets the masks.

        Args:
            molecules: number of molecules of the result.
            atoms: number of its atoms.
            edges: number of its edges; required if the batch has ``edge_index``.

        Returns:
            A new batch with the fields ``molecule_mask`` (molecules,), ``atom_mask`` (atoms,) and
            ``edge_mask`` (edges,) bool, False for the padding. Batches without padding have them
            too, as attributes.

        Raises:
            TypeError: a number is not an integer.
            FieldError: the batch is larger, there is no room for a dummy molecule of two atoms,
                or a field cannot be padded: triplets, derivatives, and fields whose shape differs
                between molecules.
        """
        return MoleculeBatch(*padding.padded(self, molecules, atoms, edges))

    def dense(self, pad: int = -1) -> dict[str, Value]:
        """Returns fields of atoms as (B, n, ...), n atoms for each of the B molecules.

            dense = batch.dense()
            energies = model((dense["atomic_numbers"], dense["positions"])).energies

        For models that accept (B, n, 3), such as those of TorchANI. Molecules with fewer than n
        atoms, the most of the batch, are padded at the end: with ``pad`` as atomic number, 0
        elsewhere. Where all have n atoms, the tensors are views. dtypes are those of the batch, and
        gradients reach its tensors.

        Args:
            pad: atomic number of the padding.

        Returns:
            Name to value: ``positions`` (B, n, 3), ``atomic_numbers`` (B, n) int64, ``forces``
            (B, n, 3) and further fields of atoms; ``energy`` (B,), ``index`` (B,) and other fields
            of molecules as they are; ``atom_mask`` (B, n) bool, False for the padding. Missing
            labels stay NaN, as ``mask`` of the batch says. ``batch`` and ``ptr`` are dropped.

        Raises:
            FieldError: the batch has edges or triplets, a field of atoms whose shape differs
                between molecules, or a field ``atom_mask``.
        """
        return padding.dense(self, pad)

    def to_dlpack(self) -> dict[str, Tensor]:
        """Returns the tensors by name, for ``from_dlpack`` of another library, without a copy.

            arrays = {name: jax.dlpack.from_dlpack(x) for name, x in batch.to_dlpack().items()}

        Returns:
            Name to tensor, each without gradients, so that it has ``__dlpack__``. They share the
            memory of the batch. Strings and fields whose shape differs between molecules are left
            out.
        """
        return interop.to_dlpack(self)

    def to_jraph(self) -> jraph.GraphsTuple:
        """Returns the batch as a ``jraph.GraphsTuple`` of NumPy arrays.

        Returns:
            ``nodes``, ``edges`` and ``globals`` are dicts of the fields of atoms, edges and
            molecules, which share the memory of the batch. Messages go from neighbors
            (``senders``, row 1 of ``edge_index``) to centers (``receivers``, row 0); both are
            copies.

        Raises:
            FieldError: the batch has no ``edge_index``, or is not on the CPU.
        """
        return interop.to_jraph(self)

    def to_torchsim(self) -> torch_sim.SimState:
        """Returns the molecules as the systems of a ``torch_sim.SimState``. Needs torch-sim.

        Returns:
            ``positions`` (N, 3) in Å and ``system_idx`` (N,) int64, which share the memory of the
            batch; ``atomic_numbers`` (N,) int32; in the dtype of the positions, ``masses`` (N,) in
            dalton, the atom property ``masses`` or those of the elements, and ``cell`` (B, 3, 3)
            with the vectors as columns, the transpose of ``cell`` here, zeros for a missing one;
            ``pbc`` (3,) bool. Other fields are dropped.

        Raises:
            FieldError: the molecules differ in ``pbc``, of which a state has one, there are none,
                or an atom has no known mass.
        """
        return interop.to_torchsim(self)

    def to_ase(self) -> list[ase.Atoms]:
        """Converts the molecules to ``ase.Atoms``.

        Positions, cell and custom properties are copied; present labels go to a
        ``SinglePointCalculator``, stress as six numbers where it is symmetric.

        Returns:
            One ``ase.Atoms`` per molecule.

        Raises:
            FieldError: velocities of an atom whose mass is unknown.
        """
        return [molecule.to_ase() for molecule in self]

    @classmethod
    def from_ase(cls, atoms: Sequence[ase.Atoms], arrays: ArrayLevel = "atom") -> MoleculeBatch:
        """Builds a batch from ``ase.Atoms``, in float64.

        Numbers, strings and arrays of numbers in ``info`` become molecule properties, numeric
        ``arrays`` atom properties. From a calculator, only results that it already holds are used;
        those without a label of their own become properties (``free_energy``, ``magmoms``, ...).
        A zero cell counts as absent. Stress keeps the sign of ASE and becomes 3 x 3; velocities
        are momenta over masses, in ASE's unit Å / (Å sqrt(u / eV)). A warning names what has no
        place: results of a different state of the atoms (moved or wrapped since), strings per atom,
        nested ``info``, constraints.

        Args:
            atoms: at least one structure.
            arrays: level of the properties that ``atoms.arrays`` and results per atom become;
                ``"molecule"`` is what atompack-db makes of them.

        Returns:
            The batch.

        Raises:
            ValueError: there are no molecules, or there is no such level.
            FieldError: values of a property cannot share a batch, or with ``arrays="molecule"`` an
                array and ``info`` share a key.
        """
        return _join([Molecule.from_ase(structure, arrays) for structure in atoms])

    @classmethod
    def from_molecules(cls, molecules: Sequence[Molecule]) -> MoleculeBatch:
        """Joins molecules; fields that only some of them have are masked for the others.

        Args:
            molecules: at least one; batches are allowed too.

        Returns:
            A new batch.

        Raises:
            TypeError: an item is neither a molecule nor a batch.
            ValueError: there are no molecules.
            FieldError: the types of a field cannot share a batch.
            CorruptFileError: a molecule holds a damaged value.
        """
        return _join(molecules)

    def __repr__(self) -> str:
        def describe(value: Value) -> str:
            if isinstance(value, Tensor):
                return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
            return f"list of {len(value)}"

        lines = [f"  {printable(name)}: {describe(value)}" for name, value in self._fields.items()]
        head = f"{len(self)} molecules, {len(self._fields['positions'])} atoms"
        return "MoleculeBatch(" + head + "\n" + "\n".join(lines[:30]) + "\n)"

    def _repr_html_(self) -> str:
        return html.batch_html(self)


def collate(items: MoleculeBatch | Sequence[Molecule | MoleculeBatch]) -> MoleculeBatch:
    """Joins molecules and batches; returns a batch, or the only batch of a list, unchanged.

    Fields that only some items have are masked for the others. ``DataLoader`` needs no
    ``collate_fn``: torch's default collate function knows these classes.

    Args:
        items: a batch, or a sequence of molecules and batches.

    Returns:
        The batch.

    Raises:
        TypeError: an item is something else.
        ValueError: there are no items.
        FieldError: the types of a field cannot share a batch.
        CorruptFileError: a molecule holds a damaged value.
    """
    if isinstance(items, MoleculeBatch):
        return items
    items = list(items)
    if len(items) == 1 and isinstance(items[0], MoleculeBatch):
        return items[0]
    return _join(items)


def _join(items: Sequence[Molecule | MoleculeBatch]) -> MoleculeBatch:
    parts = []
    for item in items:
        if isinstance(item, Molecule):
            row_of(item)  # raises for damaged values
        elif not isinstance(item, MoleculeBatch):
            kind = type(item).__name__
            raise TypeError(f"items: expected Molecule or MoleculeBatch, got {kind}")
        parts.append(batch_of_one(item) if isinstance(item, Molecule) else item)
    if not parts:
        raise ValueError("items: expected at least one molecule or batch, got none")
    return MoleculeBatch(*joining.join(parts))


def molecule_at(batch: MoleculeBatch, row: int, faults: Mapping[str, str]) -> Molecule:
    """Returns a molecule of a batch; ``faults``: its damaged values, and their errors."""
    molecule = Molecule.__new__(Molecule)
    set_row(molecule, batch, row, faults)
    return molecule


def row_of(molecule: Molecule) -> tuple[MoleculeBatch, int]:
    """Returns the batch that a molecule is a view of, and its row there.

    Args:
        molecule: the molecule.

    Returns:
        The batch and the number.

    Raises:
        CorruptFileError: a value of the molecule is damaged.
    """
    for fault in molecule._faults.values():
        raise CorruptFileError(fault)
    return molecule._batch, molecule._row


def batch_of_one(molecule: Molecule) -> MoleculeBatch:
    """Copies the present, undamaged fields of a molecule into a batch of its own."""
    # A copy, so that keeping or sending it does not keep or send the whole batch.
    return MoleculeBatch(*contents_of_molecule(molecule)).clone()


def _molecule_of(parts: conversions.Parts, arrays: ArrayLevel) -> Molecule:
    check_choice("arrays", arrays, get_args(ArrayLevel))
    properties, atom_properties = parts.properties, parts.atom_properties
    if arrays == "molecule":
        for key in properties.keys() & atom_properties.keys():
            raise FieldError(f"property {key!r}: expected it in info or in arrays, got it in both")
        properties, atom_properties = properties | atom_properties, {}
    return Molecule(
        parts.positions,
        parts.atomic_numbers,
        properties=properties,
        atom_properties=atom_properties,
        **parts.labels,
    )


def with_fields(
    batch: MoleculeBatch,
    made: Mapping[str, Value],
    masks: Mapping[str, Tensor] | None = None,
    replaced: Iterable[str] = (),
) -> MoleculeBatch:
    """Returns a batch with further fields, which are of this package, at its end.

    Args:
        batch: the batch.
        made: name → value.
        masks: name → (B,) bool; fields without one are present for all molecules.
        replaced: fields to remove, besides those that are made.

    Returns:
        A new batch over the same tensors.
    """
    old, masks = contents_of(batch), masks or {}
    dropped = {*made, *replaced}
    fields = {name: value for name, value in old.fields.items() if name not in dropped}
    infos = {name: old.infos[name] for name in fields}
    infos |= {name: FieldInfo(BUILTIN, name, level_of_derived(name)) for name in made}
    rows = {name: row for name, row in old.mask_rows.items() if name not in dropped}
    table = [] if old.masks is None else [*old.masks]
    rows |= {name: len(table) + row for row, name in enumerate(masks)}
    table += masks.values()
    return MoleculeBatch(
        fields | dict(made), infos, torch.stack(table) if masks else old.masks, rows, old.arena
    )


def restore_batch(
    structure: Structure,
    rows: tuple[int, ...],
    arena: Tensor | None,
    places: list[Place | None],
    outside: list[Tensor],
) -> MoleculeBatch:
    """Rebuilds a pickled batch: the counterpart of ``MoleculeBatch.__reduce__``."""
    views = view_arena(arena, [place for place in places if place]) if arena is not None else []
    inside, rest = iter(views), iter(outside)
    tensors = [next(inside) if place else next(rest) for place in places]
    return MoleculeBatch._assemble(structure, tensors, rows, arena)


def _collate(items: Sequence[Any], *, collate_fn_map: object = None) -> MoleculeBatch:
    return collate(items)


# At import, for worker processes that import nothing but the names in their pickles.
default_collate_fn_map[Molecule] = _collate
default_collate_fn_map[MoleculeBatch] = _collate


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


def flatten_batch(batch: MoleculeBatch) -> tuple[list[Tensor], Context]:
    """Returns the tensors of a batch, and what else it consists of."""
    structure, tensors = batch._disassemble()
    return tensors, (structure, tuple(batch._mask_rows.values()))


def _flatten_with_keys(batch: MoleculeBatch) -> tuple[list[tuple[Any, Tensor]], Context]:
    tensors, context = flatten_batch(batch)
    keys: list[Any] = []
    for name, value in batch._fields.items():
        if isinstance(value, Tensor):
            keys.append(pytree.MappingKey(name))
        else:
            keys += [EntryKey((name, i)) for i, v in enumerate(value) if isinstance(v, Tensor)]
    if batch._masks is not None:
        keys.append(pytree.GetAttrKey("_masks"))
    return list(zip(keys, tensors, strict=True)), context


def unflatten_batch(
    tensors: Iterable[Any], context: Context, arena: Tensor | None = None
) -> MoleculeBatch:
    """Rebuilds a batch with other tensors, which may be views of an arena."""
    structure, rows = context
    return MoleculeBatch._assemble(structure, list(tensors), rows, arena)


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
    flatten_batch,
    unflatten_batch,
    serialized_type_name="atompack_torch.MoleculeBatch",
    to_dumpable_context=_to_plain,
    from_dumpable_context=_from_plain,
    flatten_with_keys_fn=_flatten_with_keys,
)
