"""DeePMD-kit: frame batches from its npy systems compared with ours.

All structures have the same atoms in the same order, so that they make one system, which is best
for the npy reader.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import common
import deepmd.env
import torch
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.trainers.deepmd import loader

# The compiled operators are for a different version of torch; training does without them.
deepmd.env.SHARED_LIB_DIR = Path(__file__).parent / "none"
deepmd.env.GLOBAL_CONFIG["cibuildwheel"] = "0"
from deepmd.pt.loss.ener import EnergyStdLoss  # noqa: E402
from deepmd.pt.model.model import get_model  # noqa: E402
from deepmd.pt.utils.dataloader import DpLoaderSet  # noqa: E402

N = 2048
TYPE_MAP = ["Al", "Cu"]


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        crystals = common.structures(N)
        for atoms in crystals:
            for one in (atoms, atoms.calc.atoms):  # the labels are still those of these atoms
                one.numbers[:] = [13, 29] * (len(atoms) // 2)
        path = common.write_atp(folder / "train.atp", crystals)
        apt.convert(path, folder / "systems", target="deepmd", progress=False)

        preferences = {f"{when}_pref_{what}": 1.0 for when in ("start", "limit") for what in "efv"}
        loss = EnergyStdLoss(starter_learning_rate=1e-3, **preferences)
        systems = [str(path) for path in sorted((folder / "systems").iterdir())]
        stock = DpLoaderSet(systems, common.BATCH, TYPE_MAP, seed=0)
        stock.add_data_requirement(loss.label_requirement)
        (frames,) = stock.dataloaders
        ours = loader(path, common.BATCH, TYPE_MAP)
        unthreaded = DataLoader(ours.dataset, batch_sampler=ours.batch_sampler)

        several = {"Loader": ours, "DataLoader": unthreaded}
        common.compare("deepmd", {"npy systems": frames}, several, N)

        descriptor = {"type": "se_e2_a", "sel": [40, 40], "rcut": 5.0, "rcut_smth": 4.0}
        descriptor |= {"neuron": [8, 16], "axis_neuron": 4}
        model = get_model(
            {
                "type_map": TYPE_MAP,
                "descriptor": descriptor,
                "fitting_net": {"neuron": [32, 32], "seed": 1},
            }
        )

        def loss_of(batch: dict[str, Any]) -> Any:
            inputs = {name: batch[name] for name in ("coord", "atype", "box")}
            natoms = batch["atype"].shape[1]
            return loss(inputs, model, batch, natoms=natoms, learning_rate=1e-3)[1]

        step = common.step_of(torch.optim.Adam(model.parameters()), loss_of)
        few = list(range(16))
        for name, batches in (("npy systems", frames), ("ours", ours)):
            some: Iterable[Any] = (batch for _, batch in zip(few, batches, strict=False))
            common.report_waiting("deepmd", name, common.waiting_share(some, step))


if __name__ == "__main__":
    main()
