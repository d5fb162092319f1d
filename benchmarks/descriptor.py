"""How fast are Chebyshev features, their derivatives, and forces from them?

    python benchmarks/descriptor.py [--quick] [--rounds N] [--molecules N]

One batch of periodic molecules of 16 atoms (rutile with moved atoms, 3.4 Å and 2.9 Å cutoffs, 11
radial and 4 angular functions). Features are timed alone and with derivatives; forces and the
gradient that training needs (forward, backward) next to the same in torch's ``index_add``, which
reads the same tensors. Sides take turns in one process; the median and the best are printed,
for on a machine with other work the best comes nearer to the truth.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import numpy as np
import torch
from results import Result, note
from torch import Tensor
from turns import parser_of, take_turns

import atompack_torch as apt
from atompack_torch.fields import DERIVATIVES
from atompack_torch.ops.contraction import Rows

SETTINGS = (["Ti", "O"], 10, 3.4, 3, 2.9)

A, C, U = 4.594, 2.959, 0.305  # rutile
CELL = np.diag([A, A, C])
TITANIUM = [[0, 0, 0], [0.5, 0.5, 0.5]]
OXYGEN = [[U, U, 0], [1 - U, 1 - U, 0], [0.5 + U, 0.5 - U, 0.5], [0.5 - U, 0.5 + U, 0.5]]


def structures(n_molecules: int) -> apt.MoleculeBatch:
    """Cells of 1 x 1 x 3 less two atoms: 16."""
    rng = np.random.default_rng(0)
    unit = np.array(TITANIUM + OXYGEN)
    fractions = np.concatenate([unit + np.array([0, 0, layer]) for layer in range(3)])[:16]
    numbers = np.array(([22] * 2 + [8] * 4) * 3)[:16]
    cell = CELL * [[1], [1], [3]]
    molecules = []
    for _ in range(n_molecules):
        positions = fractions @ CELL + rng.normal(size=(16, 3)) * 0.05
        molecules.append(apt.Molecule(positions, numbers, cell=cell, pbc=[True] * 3))
    return apt.collate(molecules)


def on_threads(threads: int, body: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        torch.set_num_threads(threads)
        return body()

    return run


def counted(threads: int) -> str:
    return f"{threads} thread{'s' * (threads > 1)}"


def training_step(batch: apt.MoleculeBatch, contract: Callable[[Tensor], Tensor]) -> object:
    """Forces from weights, and the gradient of a loss back to them."""
    weights = torch.ones_like(batch.features).requires_grad_()
    forces = contract(weights)
    forces.backward(forces.detach())
    return weights.grad


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--molecules", type=int, default=64)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.molecules = 2, 16
    most = min(2, len(os.sched_getaffinity(0)))
    batch = structures(options.molecules)

    report_features(batch, options.rounds, (1, most))
    for dtype in ("float32", "float64"):
        found = report_forces(batch, dtype, options.rounds, (1, most))
        for case, (ours, theirs) in found.items():
            note(Result("descriptor", case, ours, "µs a molecule", "torch's index_add", theirs))


def report_features(batch: apt.MoleculeBatch, rounds: int, threads: tuple[int, int]) -> None:
    descriptor = apt.ChebyshevDescriptor(*SETTINGS)
    whole = descriptor.compute(batch, derivatives=True)
    edges, triplets = (len(whole[f"{kind}_center_idx"]) for kind in ("radial", "angular"))
    print(f"load {os.getloadavg()[0]:.1f}; {len(batch)} structures of 16 atoms, of each")
    print(f"{edges / len(batch):.0f} edges and {triplets / len(batch):.0f} triplets")
    sides = {
        f"{what}, {counted(n)}": on_threads(n, functools.partial(descriptor.compute, batch, rows))
        for n in dict.fromkeys(threads)
        for what, rows in (("features", False), ("features and derivatives", True))
    }
    for name, seconds in take_turns(sides, rounds).items():
        median, best = (each / len(batch) * 1e6 for each in seconds[:2])
        print(f"  {name:36} {median:7.1f} us a molecule, best {best:7.1f}")
        note(Result("descriptor", name, median, "µs a molecule"))


def by_index_add(weights: Tensor, rows: Rows) -> Tensor:
    """The same with torch's own operators."""
    n_radial = rows.radial_grads.shape[1]
    n_plain = n_radial + rows.grads_i.shape[1]
    plain, of_spins = weights[:, :n_plain], weights[:, n_plain:]
    forces = torch.zeros(len(weights), 3, dtype=weights.dtype, device=weights.device)

    v = plain[:, :n_radial].index_select(0, rows.radial_center)
    if rows.radial_spin is not None:
        more = of_spins[:, :n_radial].index_select(0, rows.radial_center)
        v = v + rows.radial_spin[:, None] * more
    pull = torch.einsum("en,enx->ex", v, rows.radial_grads)
    forces = forces.index_add(0, rows.radial_center, pull)
    forces = forces.index_add(0, rows.radial_neighbor, -pull)

    v = plain[:, n_radial:].index_select(0, rows.angular_center)
    if rows.angular_spin is not None:
        more = of_spins[:, n_radial:].index_select(0, rows.angular_center)
        v = v + rows.angular_spin[:, None] * more
    for atoms, grads in (
        (rows.angular_center, rows.grads_i),
        (rows.angular_j, rows.grads_j),
        (rows.angular_k, rows.grads_k),
    ):
        forces = forces.index_add(0, atoms, -torch.einsum("tn,tnx->tx", v, grads))
    return forces


def report_forces(
    batch: apt.MoleculeBatch, dtype: str, rounds: int, threads: tuple[int, int]
) -> dict[str, tuple[float, float]]:
    """Microseconds a structure of each case: ours and theirs."""
    whole = apt.ChebyshevDescriptor(*SETTINGS, dtype=dtype).compute(batch, derivatives=True)
    rows = Rows(*(whole[name] for name in DERIVATIVES))

    def ours() -> object:
        return training_step(whole, lambda weights: apt.contract_forces(whole, weights))

    def theirs() -> object:
        return training_step(whole, lambda weights: by_index_add(weights, rows))

    found = {}
    for n in dict.fromkeys(threads):
        pair = {"ours": on_threads(n, ours), "index_add": on_threads(n, theirs)}
        seconds = take_turns(pair, rounds)
        median, best = (each / len(batch) * 1e6 for each in seconds["ours"][:2])
        ratios = [b / a for a, b in zip(seconds["ours"], seconds["index_add"], strict=True)]
        print(
            f"  forces and their gradient, {dtype}, {counted(n)}: {median:.1f} us a molecule, "
            f"best {best:.1f}; index_add {ratios[0]:.1f} times as long, best {ratios[1]:.1f}"
        )
        found[f"forces and their gradient, {dtype}, {counted(n)}"] = median, ratios[0] * median
    return found


if __name__ == "__main__":
    main()
