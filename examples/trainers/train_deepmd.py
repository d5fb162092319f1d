"""Trains a small DeePMD model from any file that ``apt.open`` takes.

    pip install atompack_torch "deepmd-kit[torch]"
    python examples/trainers/train_deepmd.py train.atp H C O --steps 1000

DeePMD-kit makes its statistics from systems of its own: the first structures, which are converted
here. All further batches come from the file itself.
"""

import argparse
from pathlib import Path
from typing import Any

from deepmd.pt.entrypoints.main import get_trainer
from deepmd.utils.argcheck import normalize

import atompack_torch as apt
from atompack_torch.trainers.deepmd import endless, loader


def configuration(systems: Path, type_map: list[str], steps: int) -> dict[str, Any]:
    """Returns DeePMD's input; any other model goes in the same place."""
    return {
        "model": {
            "type_map": type_map,
            "descriptor": {
                "type": "se_e2_a",
                "sel": [60] * len(type_map),
                "rcut": 4.0,
                "rcut_smth": 3.0,
                "neuron": [4, 8],
                "axis_neuron": 2,
                "seed": 1,
            },
            "fitting_net": {"neuron": [16], "seed": 1},
        },
        "optimizer": {"type": "Adam"},
        "learning_rate": {"type": "exp", "start_lr": 1e-3, "stop_lr": 1e-5, "decay_steps": steps},
        "loss": {
            "type": "ener",
            "start_pref_e": 0.1,
            "limit_pref_e": 1.0,
            "start_pref_f": 100.0,
            "limit_pref_f": 1.0,
            "start_pref_v": 0.1,
            "limit_pref_v": 1.0,
        },
        "training": {
            "training_data": {"systems": str(systems), "batch_size": 1},
            "numb_steps": steps,
            "disp_freq": 1,
            "save_freq": steps,
            "seed": 1,
        },
    }


def main() -> None:
    """Trains from the file on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train")
    parser.add_argument("type_map", nargs="+", help="symbols of the elements")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--sample", type=int, default=100, help="structures for statistics")
    args = parser.parse_args()

    dataset = apt.open(args.train)
    with apt.AtpWriter("sample.atp", mode="w") as sample:
        for number in range(min(args.sample, len(dataset))):
            sample.write(dataset[number])
    apt.convert("sample.atp", "sample", target="deepmd", mode="w")

    config = normalize(configuration(Path("sample"), args.type_map, args.steps))
    trainer = get_trainer(config)
    trainer.training_data = endless(loader(dataset, args.batch_size, args.type_map, seed=1))
    trainer.run()


if __name__ == "__main__":
    main()
