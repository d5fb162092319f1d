"""Trains MACE on any data, and compares its energies and forces with the labels.

    python examples/trainers/train_mace.py train.atp --epochs 20 --out build/mace

The data are anything that ``apt.open`` takes. MACE's own command line, with all of its options, is
``python -m atompack_torch.trainers.mace``; this script is for those who need a loop of their own.
Needs ``mace-torch``.
"""

import argparse
from pathlib import Path

import mace  # before e3nn, whose constants torch.load refuses otherwise
import matplotlib.pyplot as plt
import numpy as np
import torch
from e3nn import o3
from mace import modules, tools

import atompack_torch as apt
from atompack_torch.trainers.mace import loader

CUTOFF = 4.5  # Å


def build_model(z_table: tools.AtomicNumberTable, dataset: apt.AtpDataset) -> torch.nn.Module:
    """Builds a small MACE with reference energies and neighbor counts of the data."""
    statistics = dataset.statistics(cutoff=CUTOFF)
    energies = statistics.reference_energies.energies
    interaction = modules.interaction_classes["RealAgnosticResidualInteractionBlock"]
    return modules.ScaleShiftMACE(
        r_max=CUTOFF,
        num_bessel=6,
        num_polynomial_cutoff=5,
        max_ell=2,
        interaction_cls=interaction,
        interaction_cls_first=interaction,
        num_interactions=2,
        num_elements=len(z_table),
        hidden_irreps=o3.Irreps("8x0e + 8x1o"),
        MLP_irreps=o3.Irreps("8x0e"),
        gate=torch.nn.functional.silu,
        atomic_energies=np.array([energies[z] for z in z_table.zs]),
        avg_num_neighbors=statistics.mean_neighbors,
        atomic_numbers=z_table.zs,
        correlation=2,
        radial_type="bessel",
        atomic_inter_scale=1.0,
        atomic_inter_shift=0.0,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="anything that apt.open takes")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path(), help="folder for the plot")
    args = parser.parse_args()

    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    train, valid = apt.open(args.data).split([0.9, 0.1], seed=0)
    z_table = tools.AtomicNumberTable(sorted(train.statistics().elements))
    model = build_model(z_table, train)
    loss = modules.WeightedEnergyForcesLoss(energy_weight=1.0, forces_weight=100.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    batches = loader(train, z_table, CUTOFF, batch_size=args.batch_size)
    for epoch in range(args.epochs):
        total = 0.0
        for batch in batches:  # every pass is a new epoch, in a different order
            optimizer.zero_grad()
            found = model(batch.to_dict(), training=True)
            value = loss(pred=found, ref=batch)
            value.backward()
            optimizer.step()
            total += value.item()
        print(f"epoch {epoch:3d}  loss {total / len(batches):10.4f}", flush=True)

    rows = {"energy": [], "forces": []}
    for batch in loader(valid, z_table, CUTOFF, batch_size=args.batch_size, shuffle=False):
        found = model(batch.to_dict())
        n_atoms = batch.ptr.diff()
        has_energy, has_forces = batch.energy_weight > 0, batch.forces_weight[batch.batch] > 0
        pairs = torch.stack([batch.energy, found["energy"].detach()], 1) / n_atoms[:, None]
        rows["energy"].append(pairs[has_energy])
        pairs = torch.stack([batch.forces, found["forces"].detach()], 2).reshape(-1, 3, 2)
        rows["forces"].append(pairs[has_forces].reshape(-1, 2))
    args.out.mkdir(parents=True, exist_ok=True)
    plot(rows, args.out / "mace_parity.png")


def plot(rows: dict[str, list[torch.Tensor]], path: Path) -> None:
    """Plots predictions over labels."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
    units = {"energy": "eV/atom", "forces": "eV/Å"}
    for axis, (name, parts) in zip(axes, rows.items(), strict=True):
        label, found = torch.cat(parts).T.numpy()
        error = np.sqrt(np.mean((label - found) ** 2))
        axis.plot(label, found, ".", ms=3)
        axis.axline((float(label.mean()),) * 2, slope=1, color="gray", lw=1)
        axis.set(xlabel=f"{name} of the data ({units[name]})", ylabel=f"of MACE ({units[name]})")
        axis.set_title(f"RMSE {error:.3g} {units[name]}")
    figure.savefig(path, dpi=150)
    print(f"wrote {path}")


if __name__ == "__main__":
    assert mace
    main()
