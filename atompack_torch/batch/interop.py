"""Batches for other libraries: dicts in their names, torch-geometric, DLPack, jraph, torch-sim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from atompack_torch.batch.collated_fields import CollatedFields, first_rows, first_targets
from atompack_torch.batch.conversions import masses_of
from atompack_torch.batch.storage import Value
from atompack_torch.errors import FieldError
from atompack_torch.fields import ATOM_PROPERTY, MOLECULE_PROPERTY, PREFIXES

if TYPE_CHECKING:
    import jraph
    import torch_sim

# Fields of a batch's molecule that a jraph.GraphsTuple holds in other ways.
_STRUCTURE = ("ptr", "batch", "n_atoms", "edge_index")

# Field -> name in the other library, where they differ.
PRESETS: dict[str, dict[str, str]] = {
    # datasets and models of torch-geometric
    "pyg": {"positions": "pos", "atomic_numbers": "z"},
    # fairchem.core.datasets.atomic_data.AtomicData
    "fairchem": {"positions": "pos", "n_atoms": "natoms", "edge_shift": "cell_offsets"},
    # nvalchemi.data.Batch
    "nvalchemi": {"n_atoms": "num_nodes_per_graph", "edge_shift": "neighbor_list_shifts"},
}

# Integers that fairchem requires -> scope of the custom property that holds them.
_FAIRCHEM_INTEGERS = {
    "charge": MOLECULE_PROPERTY,
    "spin": MOLECULE_PROPERTY,
    "fixed": ATOM_PROPERTY,
    "tags": ATOM_PROPERTY,
}
_NVALCHEMI_COLUMNS = ("energy", "charge", "spin")


def to_dict(batch: CollatedFields, preset: str | None) -> dict[str, Value]:
    """Implements ``MoleculeBatch.to_dict``."""
    if preset is not None and preset not in PRESETS:
        raise ValueError(f"preset: expected one of {', '.join(PRESETS)} or None, got {preset!r}")
    if preset == "fairchem":
        return _to_fairchem(batch)
    if preset == "nvalchemi":
        return _to_nvalchemi(batch)
    return _rename(batch, PRESETS[preset] if preset else {})


def _rename(batch: CollatedFields, names: dict[str, str]) -> dict[str, Value]:
    return {names.get(name, name): value for name, value in batch.items()}


def _to_fairchem(batch: CollatedFields) -> dict[str, Value]:
    """Returns the fields that ``AtomicData.from_dict`` takes, and all others."""
    made = _rename(batch, PRESETS["fairchem"])
    dtype = _supported_dtype(batch.positions.dtype)
    n_molecules, device = len(batch), batch.ptr.device
    made["pos"] = batch.positions.to(dtype)
    made.setdefault("cell", torch.zeros((n_molecules, 3, 3), dtype=dtype, device=device))
    made.setdefault("pbc", torch.zeros((n_molecules, 3), dtype=torch.bool, device=device))
    if "edge_index" in batch:
        # fairchem: pos[row 0] - pos[row 1] + offsets cell; here: r_j - r_i + S cell.
        made["edge_index"] = batch.edge_index.flip(0)
        made["nedges"] = first_rows(batch, "edge_index").diff()
    else:  # fairchem builds the graph itself
        made["edge_index"] = torch.zeros((2, 0), dtype=torch.int64, device=device)
        made["nedges"] = torch.zeros(n_molecules, dtype=torch.int64, device=device)
        made["cell_offsets"] = torch.zeros((0, 3), dtype=dtype, device=device)
    for name in ("cell", "cell_offsets", "energy", "forces", "stress"):
        value = made.get(name)
        if isinstance(value, Tensor):
            made[name] = value.to(dtype)
    for name, scope in _FAIRCHEM_INTEGERS.items():
        taken = _take_property(batch, made, name, scope)
        rows = n_molecules if scope == MOLECULE_PROPERTY else len(batch.positions)
        none = torch.zeros(rows, dtype=torch.int64, device=device)
        made[name] = none if taken is None else _to_integers(name, taken, rows)
    sid = _take_property(batch, made, "sid", MOLECULE_PROPERTY)
    made["sid"] = _to_strings(batch.index.tolist() if sid is None else sid)
    task = _take_property(batch, made, "dataset", MOLECULE_PROPERTY)
    if task is not None:
        made["dataset"] = _to_strings(task)
    return made


def _to_nvalchemi(batch: CollatedFields) -> dict[str, Value]:
    """Returns the fields of ``nvalchemi.data.AtomicData``; numbers of molecules are (B, 1)."""
    made = _rename(batch, PRESETS["nvalchemi"])
    if "edge_index" in batch:
        made["neighbor_list"] = made.pop("edge_index").t().contiguous()  # type: ignore[union-attr]
    for name in _NVALCHEMI_COLUMNS:
        value = batch.get(name)
        if not isinstance(value, Tensor) or batch.level(name) != "molecule" or value.dim() != 1:
            continue
        if not value.is_floating_point():
            value = value.to(_supported_dtype(batch.positions.dtype))
        made[name] = value.unsqueeze(1)
    return made


def _supported_dtype(dtype: torch.dtype) -> torch.dtype:
    """Returns the dtype that ``AtomicData`` supports: float64, or float32 for all others."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _take_property(
    batch: CollatedFields, made: dict[str, Value], name: str, scope: int
) -> Value | None:
    """Returns the custom property of this name and scope; renames one of the other scope."""
    listed = batch._find(PREFIXES[scope] + name)
    other = batch._find(name)
    if other is not None and other != listed and name in made:
        made[PREFIXES[batch._infos[other].scope] + name] = made.pop(name)
    return None if listed is None else batch._fields[listed]


def _to_integers(name: str, value: Value, rows: int) -> Tensor:
    if not isinstance(value, Tensor) or tuple(value.shape) != (rows,):
        got = tuple(value.shape) if isinstance(value, Tensor) else "a list"
        raise FieldError(f"fairchem: expected ({rows},) integers, got {got} (field {name!r})")
    if value.is_floating_point():
        value = value.nan_to_num(0.0)  # absent
        if not torch.equal(value, value.round()):
            raise FieldError(f"fairchem: expected whole numbers, got fractions (field {name!r})")
    return value.long()


def _to_strings(values: Any) -> list[Any]:
    entries = values.tolist() if isinstance(values, Tensor) else values
    return ["" if entry is None else str(entry) for entry in entries]


def to_pyg(batch: CollatedFields) -> Any:
    """Returns a torch-geometric batch over the same tensors, which it can separate again."""
    from torch_geometric.data import Batch, Data

    fields = to_dict(batch, "pyg")
    structure = {name: fields.pop(name) for name in ("batch", "ptr")}
    if isinstance(edges := fields.get("triplet_edges"), Tensor):
        fields["triplet_edges"] = edges.t()  # torch-geometric separates it along the first axis
    data = Batch(_base_cls=Data, **fields, **structure)
    data._num_graphs = len(batch)
    data._slice_dict, data._inc_dict = {}, {}
    for name, listed in zip(fields, (n for n in batch.keys() if n not in structure), strict=True):
        data._slice_dict[name] = first_rows(batch, listed)
        targets = first_targets(batch, listed)
        none = torch.zeros(len(batch), dtype=torch.int64)
        data._inc_dict[name] = none if targets is None else targets
    return data


def to_dlpack(batch: CollatedFields) -> dict[str, Tensor]:
    """Implements ``MoleculeBatch.to_dlpack``."""
    return {name: value.detach() for name, value in batch.items() if isinstance(value, Tensor)}


def to_jraph(batch: CollatedFields) -> jraph.GraphsTuple:
    """Implements ``MoleculeBatch.to_jraph``."""
    import jraph

    if "edge_index" not in batch:
        raise FieldError(
            "to_jraph: expected a batch with edge_index: make it by neighbors= of the dataset"
        )
    if batch.ptr.device.type != "cpu":
        raise FieldError(f"to_jraph: expected a batch on cpu, got {batch.ptr.device}")
    rows: dict[str, dict[str, Any]] = {"atom": {}, "edge": {}, "molecule": {}}
    for name, tensor in to_dlpack(batch).items():
        level = batch.level(name)
        if name not in _STRUCTURE and level in rows:
            rows[level][name] = tensor.numpy()
    centers, neighbors = batch.edge_index.detach().unbind(0)
    n_edges = torch.bincount(batch.batch[centers], minlength=len(batch))
    return jraph.GraphsTuple(
        nodes=rows["atom"],
        edges=rows["edge"],
        senders=neighbors.numpy().copy(),  # jraph.unbatch_np changes them in place
        receivers=centers.numpy().copy(),
        globals=rows["molecule"],
        n_node=batch.n_atoms.numpy(),
        n_edge=n_edges.numpy(),
    )


def to_torchsim(batch: CollatedFields) -> torch_sim.SimState:
    """Implements ``MoleculeBatch.to_torchsim``."""
    import torch_sim

    device, dtype = batch.positions.device, batch.positions.dtype
    cell, pbc = batch.get("cell"), batch.get("pbc")
    if not isinstance(cell, Tensor):
        cell = torch.zeros((len(batch), 3, 3), dtype=dtype, device=device)
    if not isinstance(pbc, Tensor):
        pbc = torch.zeros((len(batch), 3), dtype=torch.bool, device=device)
    if not len(batch) or bool((pbc != pbc[0]).any()):
        kinds = sorted({tuple(row) for row in pbc.tolist()})
        raise FieldError(
            f"to_torchsim: expected the same pbc in all molecules, got {kinds} (field 'pbc')"
        )
    return torch_sim.SimState(
        positions=batch.positions,
        masses=_masses(batch).to(device, dtype),
        cell=cell.to(dtype).transpose(1, 2).contiguous(),
        pbc=pbc[0],
        atomic_numbers=batch.atomic_numbers.int(),
        system_idx=batch.batch,
    )


def _masses(batch: CollatedFields) -> Tensor:
    """Returns the masses of the atoms (N,), on the CPU: their own, else those of the elements."""
    masses = torch.from_numpy(masses_of(batch.atomic_numbers.cpu()))
    name = batch._find(PREFIXES[ATOM_PROPERTY] + "masses")
    own = None if name is None else batch._fields[name]
    if name is not None and isinstance(own, Tensor) and own.shape == masses.shape:
        has_own = batch.mask(name)[batch.batch].cpu()
        masses = torch.where(has_own, own.detach().cpu().double(), masses)
    if bool(masses.isnan().any()):
        number = int(batch.atomic_numbers[masses.isnan().to(batch.ptr.device)][0])
        raise FieldError(
            f"to_torchsim: expected elements or masses, got atomic number {number} without a mass"
        )
    return masses
