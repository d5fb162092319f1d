"""Small models of SevenNet, and batches as its own path makes them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import ase
import torch
from sevenn import _const, _keys
from sevenn.model_build import build_E3_equivariant_model
from sevenn.train.dataload import _set_atoms_y, graph_build
from sevenn.train.trainer import Trainer
from sevenn.util import chemical_species_preprocess
from structures import CUTOFF
from torch_geometric.loader import DataLoader

BATCH = 4
SYMBOLS = ("H", "C", "O", "Al", "Cu")
CONFIG: dict[str, Any] = {
    **_const.DEFAULT_E3_EQUIVARIANT_MODEL_CONFIG,
    **_const.DEFAULT_TRAINING_CONFIG,
    **chemical_species_preprocess(list(SYMBOLS)),
    _keys.CUTOFF: CUTOFF,
    _keys.NODE_FEATURE_MULTIPLICITY: 4,
    _keys.NUM_CONVOLUTION: 2,
    _keys.CONVOLUTION_WEIGHT_NN_HIDDEN_NEURONS: [8],
    _keys.RADIAL_BASIS: {"radial_basis_name": "bessel", "bessel_basis_num": 4},
    _keys.CUTOFF_FUNCTION: {"cutoff_function_name": "poly_cut", "poly_cut_p_value": 6},
    _keys.SHIFT: -4.0,
    _keys.SCALE: 0.7,
    _keys.CONV_DENOMINATOR: 20.0,
    _keys.DEVICE: "cpu",
    _keys.OPTIM_PARAM: {"lr": 0.005},
    _keys.SCHEDULER_PARAM: {"gamma": 0.99},
    _keys.STRESS_WEIGHT: 1e-3,
}
TYPE_MAP: dict[int, int] = CONFIG[_keys.TYPE_MAP]


def new_model(dtype: torch.dtype = torch.float32) -> Any:
    """A model with random weights, the same ones each time."""
    torch.manual_seed(3)
    model = build_E3_equivariant_model(dict(CONFIG))
    if dtype == torch.float64:  # SevenNet itself makes its one-hot vectors float32
        model.double()
        model.onehot_idx_to_onehot.register_forward_hook(_to_double)
    model.set_is_batch_data(True)
    return model


def _to_double(module: Any, inputs: Any, data: Any) -> Any:
    for name in ("x", "node_attr"):
        if data[name].is_floating_point():
            data[name] = data[name].double()
    return data


def new_trainer(dtype: torch.dtype = torch.float32, **config: Any) -> Any:
    """SevenNet's own Trainer of such a model."""
    return Trainer.from_config(new_model(dtype), copy.deepcopy({**CONFIG, **config}))


def stock_loader(
    made: Sequence[ase.Atoms],
    dtype: torch.dtype = torch.float32,
    *,
    batch_size: int = BATCH,
    allow_unlabeled: bool = False,
) -> Any:
    """SevenNet's own loader, in the stored order."""
    import sevenn.util

    original = sevenn.util.dtype_correct
    sevenn.util.dtype_correct = lambda value: original(value, float_dtype=dtype)
    try:
        atoms = _set_atoms_y([_copy(a) for a in made])
        graphs = graph_build(atoms, CUTOFF, allow_unlabeled=allow_unlabeled)
    finally:
        sevenn.util.dtype_correct = original
    for graph in graphs:
        del graph[_keys.INFO]
    return DataLoader(graphs, batch_size=batch_size)


def _copy(atoms: ase.Atoms) -> ase.Atoms:
    copied = atoms.copy()
    copied.calc = copy.deepcopy(atoms.calc)
    return copied


def losses(trainer: Any, batches: Iterable[Any], n_steps: int = 20) -> list[float]:
    """Trains by ``Trainer.run_one_epoch``, epoch after epoch; returns the loss of each step."""
    found: list[float] = []

    def noting() -> Iterator[Any]:
        for batch in batches:
            if len(found) < n_steps:
                yield batch

    backward = torch.Tensor.backward

    def note(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        found.append(float(tensor.detach()))
        return backward(tensor, *args, **kwargs)

    torch.Tensor.backward = note  # type: ignore[method-assign]
    try:
        while len(found) < n_steps:
            trainer.run_one_epoch(noting(), is_train=True)
    finally:
        torch.Tensor.backward = backward  # type: ignore[method-assign]
    return found
