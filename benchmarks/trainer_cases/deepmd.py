"""DeePMD-kit: frame batches from its npy systems compared with ours.

All structures have the same atoms in the same order, so that they make one system, which is best
for the npy reader.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from common import BATCH, report, report_waiting, seconds_of_epochs, structures, waiting_share

N = 2048
TYPE_MAP = ["Al", "Cu"]


def main() -> None:
    # This file has the name of the package that it imports.
    sys.path.remove(str(Path(__file__).parent))
    import deepmd.env
    import torch
    from torch.utils.data import DataLoader

    import atompack_torch as apt
    from atompack_torch.trainers.deepmd import loader

    # The compiled operators are for a different version of torch; training does without them.
    deepmd.env.SHARED_LIB_DIR = Path(__file__).parent / "none"
    deepmd.env.GLOBAL_CONFIG["cibuildwheel"] = "0"
    from deepmd.pt.loss.ener import EnergyStdLoss
    from deepmd.pt.model.model import get_model
    from deepmd.pt.utils.dataloader import DpLoaderSet

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with apt.AtpWriter(folder / "train.atp") as writer:
            for atoms in structures(N):
                atoms.numbers[:] = [13, 29] * (len(atoms) // 2)
                writer.write(apt.Molecule.from_ase(atoms))
        apt.convert(folder / "train.atp", folder / "systems", target="deepmd", progress=False)

        preferences = {f"{when}_pref_{what}": 1.0 for when in ("start", "limit") for what in "efv"}
        loss = EnergyStdLoss(starter_learning_rate=1e-3, **preferences)
        systems = [str(path) for path in sorted((folder / "systems").iterdir())]
        stock = DpLoaderSet(systems, BATCH, TYPE_MAP, seed=0)
        stock.add_data_requirement(loss.label_requirement)
        (frames,) = stock.dataloaders
        ours = loader(folder / "train.atp", BATCH, TYPE_MAP)
        unthreaded = DataLoader(ours.dataset, batch_sampler=ours.batch_sampler)

        sides: dict[str, Any] = {
            "npy systems": lambda: frames,
            "ours": lambda: ours,
            "ours in a DataLoader": lambda: unthreaded,
        }
        seconds = seconds_of_epochs(sides)
        report("deepmd", "npy systems", seconds["npy systems"], seconds["ours"], N)
        report(
            "deepmd",
            "npy systems, ours in a DataLoader",
            seconds["npy systems"],
            seconds["ours in a DataLoader"],
            N,
        )

        descriptor = {"type": "se_e2_a", "sel": [40, 40], "rcut": 5.0, "rcut_smth": 4.0}
        descriptor |= {"neuron": [8, 16], "axis_neuron": 4}
        model = get_model(
            {
                "type_map": TYPE_MAP,
                "descriptor": descriptor,
                "fitting_net": {"neuron": [32, 32], "seed": 1},
            }
        )
        optimizer = torch.optim.Adam(model.parameters())

        def step(batch: dict[str, Any]) -> None:
            inputs = {name: batch[name] for name in ("coord", "atype", "box")}
            _, value, _ = loss(
                inputs, model, batch, natoms=batch["atype"].shape[1], learning_rate=1e-3
            )
            optimizer.zero_grad()
            value.backward()
            optimizer.step()

        few = list(range(16))
        for name, batches in (("npy systems", frames), ("ours", ours)):
            some: Iterable[Any] = (batch for _, batch in zip(few, batches, strict=False))
            report_waiting("deepmd", name, waiting_share(some, step))


if __name__ == "__main__":
    main()
