"""The command of MatGL with datasets of this package instead of its own."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import matgl.cli
import matgl.graph.data
import torch
from matgl.graph.data import split_dataset
from matgl.utils.constants import EV_PER_ANG3_TO_GPA

from atompack_torch.batch.elements import symbol
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.loading.loader import Loader
from atompack_torch.trainers._layout import open_dataset
from atompack_torch.trainers._samplers import epoch_loader
from atompack_torch.trainers.matgl._layout import MatGLLayout, layout

_TO_GPA = {"auto": EV_PER_ANG3_TO_GPA, "eV/A3": EV_PER_ANG3_TO_GPA, "kbar": -0.1, "GPa": 1.0}
_MATGL_NAMES = {"energy": "energies", "forces": "forces", "stress": "stresses"}


class _Part(NamedTuple):
    """Molecules of a run, with what their loader needs."""

    dataset: MoleculeDataset
    layout: MatGLLayout
    seed: int


class _Data(dict[str, _Part]):
    """Data of a run, under the keys of MatGL's splits.

    Args:
        whole: all molecules.
        labels: names of the labels, as in ``MGLDataset``.
        fractions: of training, validation and test; empty: no splits.
    """

    def __init__(self, whole: _Part, labels: Sequence[str], fractions: Sequence[float]) -> None:
        self.whole, self.labels = whole, labels
        self.element_types = whole.layout.element_types
        if fractions:
            split = partial(split_dataset, shuffle=True, random_state=whole.seed)
            parts = split(range(len(whole.dataset)), frac_list=list(fractions))
            for name, part in zip(("train", "valid", "test"), parts, strict=True):
                self[name] = whole._replace(dataset=whole.dataset.subset(part.indices))


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Runs the command of MatGL.

    Args:
        arguments: of the command, and ``--key-map NAME=LABEL`` for a label with a different name in
            the data; None: those of this process.

    Returns:
        Its exit status.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--key-map", action="append", default=[], type=_pair)
    own, arguments = parser.parse_known_args(arguments)
    matgl.cli._load_cli_pes_dataset = partial(_open, key_map=dict(own.key_map))
    matgl.graph.data.MGLDataLoader = _loaders
    status: int | None = matgl.cli.main(arguments)
    return status


def _pair(text: str) -> tuple[str, str]:
    name, _, label = text.rpartition("=")
    if not (name and label):
        raise argparse.ArgumentTypeError(f"expected NAME=LABEL, got {text!r}")
    return name, label


def _open(
    args: Any,
    *,
    cutoff: float,
    element_types: Sequence[str] | None,
    key_map: Mapping[str, str] | None = None,
) -> _Data:
    """Opens the data of the subcommands ``train`` and ``evaluate``."""
    if args.input_format == "json":
        raise ValueError("--input-format: expected auto or extxyz; JSON is for mgl itself")
    names = {"energy": args.energy_key, "forces": args.forces_key, "stress": args.stress_key}
    charges = args.charges and not args.magmoms  # MatGL's batches have one of them
    if charges:
        names["charges"] = args.charges_key
    whole = open_dataset(
        args.infile,
        {**{name: label for label, name in names.items() if name != label}, **(key_map or {})},
    )
    fields = {label: label for label in names}
    if args.magmoms:
        fields["magmoms"] = args.magmoms_key
    found = whole.statistics()
    if element_types is None:
        element_types = tuple(symbol(number) for number in found.elements)
    n_stress = found.coverage.get(fields["stress"], 0)
    if n_stress not in (0, len(whole)):
        raise ValueError(
            f"{args.infile}: expected stress in all molecules or none, got {n_stress} of "
            f"{len(whole)}"
        )
    if not n_stress:
        del fields["stress"]
    made = layout(
        element_types,
        cutoff,
        stress_factor=_TO_GPA[args.stress_unit],
        **({"stress": None} | fields),
    )
    fractions: tuple[float, ...] = ()
    if hasattr(args, "train_ratio"):
        fractions = (args.train_ratio, args.valid_ratio, args.test_ratio)
    labels = [_MATGL_NAMES.get(name, name) for name in fields]
    return _Data(_Part(whole, made, getattr(args, "seed", 0)), labels, fractions)


def _loaders(
    train_data: _Part | _Data,
    val_data: _Part | _Data,
    test_data: _Part | _Data | None = None,
    *,
    batch_size: int = 1,
    num_workers: int = 0,
    **_: Any,
) -> tuple[Loader[Any], ...]:
    """Makes the loaders of a run, as ``MGLDataLoader`` does."""
    given = [train_data, val_data] + ([] if test_data is None else [test_data])
    parts = [part.whole if isinstance(part, _Data) else part for part in given]
    return tuple(
        epoch_loader(
            part.dataset,
            part.layout,
            batch_size=batch_size,
            shuffle=number == 0,
            seed=part.seed,
            num_threads=num_workers or None,
            pin_memory=torch.cuda.is_available(),
        )
        for number, part in enumerate(parts)
    )
