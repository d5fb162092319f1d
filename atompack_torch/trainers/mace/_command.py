"""``mace_run_train`` on any data: the functions that read files and make loaders are replaced."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from mace import data as mace_data
from mace.cli import run_train
from mace.data import AtomicData, random_train_valid_split
from mace.tools import multihead_tools, run_train_utils, scripts_utils, torch_geometric
from mace.tools.scripts_utils import SubsetCollection
from torch.nn.parallel import DistributedDataParallel

from atompack_torch.errors import FieldError
from atompack_torch.formats import detect
from atompack_torch.options import is_url, redact_path
from atompack_torch.trainers._labels import absent_labels, count_labels, similar_keys
from atompack_torch.trainers._layout import open_dataset, selected_schema
from atompack_torch.trainers.mace._layout import KEYS, first_field
from atompack_torch.trainers.mace._loader import Graph, GraphDataset, make_loader
from atompack_torch.trainers.mace._structures import (
    Part,
    Row,
    Structures,
    average_energies,
    by_type,
    isolated_atoms,
)

_OPENED = ("AtpDataset", "AseLmdbDataset", "ExtxyzDataset")  # by apt.open
_LABELS = ("energy", "forces", "dipole")  # one of them has to be there


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains as ``mace_run_train`` does.

    Args:
        arguments: of ``mace_run_train``; None: those of this process.

    Raises:
        SystemExit: the arguments are wrong.
    """
    with any_data():
        args = run_train.tools.build_default_arg_parser().parse_args(arguments)
        if args.distributed and args.device == "cpu" and args.launcher == "torchrun":
            torch.distributed.init_process_group("gloo")  # MACE starts one for GPUs only
        run_train.run(args)


@contextmanager
def any_data() -> Iterator[None]:
    """Replaces, inside of a ``with`` block, the functions of MACE that read data."""
    original = scripts_utils.check_path_ase_read

    def is_read_here(path: str | None) -> bool:
        return path is not None and (_is_ours(path) or original(path))

    replacements = [
        (run_train, "check_path_ase_read", is_read_here),
        (run_train_utils, "check_path_ase_read", is_read_here),
        (run_train, "get_dataset_from_xyz", collections_of),
        (run_train, "load_dataset_for_path", _load(run_train.load_dataset_for_path)),
        (run_train, "apply_pseudolabels_to_pt_head_configs", _apply_pseudolabels),
        (run_train, "DDP", _data_parallel),
        (torch_geometric.dataloader, "DataLoader", make_loader),
        (AtomicData, "from_config", _from_config(AtomicData.from_config)),
        (mace_data, "compute_average_E0s", _average_energies),
        (
            mace_data,
            "estimate_e0s_from_foundation",
            _with_configurations(mace_data.estimate_e0s_from_foundation),
        ),
    ]
    with ExitStack() as stack:
        for owner, name, replacement in replacements:
            stack.callback(setattr, owner, name, owner.__dict__[name])
            setattr(owner, name, replacement)
        yield


def _data_parallel(model: torch.nn.Module, device_ids: list[int]) -> DistributedDataParallel:
    """Wraps a model, which may be on the CPU too: in that case torch accepts no device numbers."""
    is_on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
    return DistributedDataParallel(model, device_ids=None if is_on_cpu else device_ids)


def _is_ours(path: str) -> bool:
    """True for what ``apt.open`` opens; HDF5 and LMDB of MACE stay with it."""
    if is_url(path):
        return True
    try:
        known = detect(Path(path))
    except OSError:
        return False
    return known is not None and (known.opens in _OPENED or known.is_compression)


def collections_of(
    work_dir: str,
    train_path: str | Sequence[str],
    valid_path: str | Sequence[str] | None,
    valid_fraction: float,
    key_specification: Any,
    config_type_weights: Mapping[str, float] | None = None,
    test_path: str | Sequence[str] | None = None,
    seed: int = 1234,
    keep_isolated_atoms: bool = False,
    head_name: str = "Default",
    no_data_ok: bool = False,
    prefix: str | None = None,
) -> tuple[SubsetCollection, dict[int, float] | None]:
    """Opens the data of a head, instead of MACE's ``get_dataset_from_xyz``.

    Args:
        work_dir: folder for the numbers of molecules that are split off for validation.
        train_path: paths of the molecules to train on.
        valid_path: paths of those for validation; None: they are split off, as MACE does.
        valid_fraction: share of molecules to split off.
        key_specification: MACE's names of labels.
        config_type_weights: ``config_type`` → weight.
        test_path: paths of molecules for tests.
        seed: of the split.
        keep_isolated_atoms: train on isolated atoms, too.
        head_name: name of the head.
        no_data_ok: accept molecules without labels.
        prefix: of the file with the numbers.

    Returns:
        The molecules, and the energies of isolated atoms or None.

    Raises:
        FieldError: no molecule has a label, or an isolated atom has no energy.
    """
    keys = {**key_specification.info_keys, **key_specification.arrays_keys}
    weights = config_type_weights or {}

    def opened(paths: str | Sequence[str], what: str) -> Structures:
        parts = [
            _part(path, keys, weights, head_name, what, no_data_ok or what != "training")
            for path in ([paths] if isinstance(paths, str) else paths)
        ]
        structures = Structures.of(parts)
        logging.info(f"{what} structures of head '{head_name}': {len(structures)}")
        return structures

    train = opened(train_path, "training")
    energies, others = isolated_atoms(train)
    if energies:
        logging.info("Using isolated atom energies from training file")
    train = train if keep_isolated_atoms else others
    if valid_path:
        valid = opened(valid_path, "validation")
    else:
        places = range(len(train))
        split = random_train_valid_split(places, valid_fraction, seed, work_dir, prefix)
        train, valid = train.take(split[0]), train.take(split[1])
    tests = by_type(opened(test_path, "test")) if test_path else []
    return SubsetCollection(train=train, valid=valid, tests=tests), energies or None


def _part(
    path: str,
    keys: Mapping[str, str],
    weights: Mapping[str, float],
    head: str,
    what: str,
    may_lack_labels: bool,
) -> Part:
    dataset = open_dataset(path)
    schema = selected_schema(dataset)
    found = {}
    searched = {
        label: KEYS[label] if key in KEYS.get(label, ())[:1] else (key,)
        for label, key in keys.items()
        if label != "head"
    }
    for label, candidates in searched.items():
        key, name = keys[label], first_field(candidates, schema)
        if name is None:
            continue
        found[label] = name
        if name != key:
            logging.info(f"{redact_path(path)}: no {key!r}: {label} from {name!r}")
    counts = count_labels(dataset, list(found.values()))
    absent = [label for label in ("energy", "forces") if not counts.get(found.get(label, ""))]
    if absent:
        message = absent_labels(dataset, [searched.get(label, (label,)) for label in absent])
        similar = similar_keys(dataset, absent).items()
        message += "".join(f" (--{label}_key {name})" for name, label in similar)
        if not may_lack_labels and not any(counts.get(found.get(label, "")) for label in _LABELS):
            raise FieldError(message)
        logging.warning(f"{message}: weight 0")
    logging.info(
        f"{what.capitalize()} set {redact_path(path)} "
        f"[{', '.join(f'{label}: {counts[key]}' for label, key in found.items())}]"
    )
    return Part(dataset, found, weights, head)


def _load(original: Any) -> Any:
    def load_dataset_for_path(
        file_path: Any,
        r_max: float,
        z_table: Any,
        heads: Any,
        head_config: Any,
        collection: Any = None,
    ) -> Any:
        if isinstance(collection, Structures):
            return GraphDataset(collection, z_table.zs, r_max, heads)
        return original(file_path, r_max, z_table, heads, head_config, collection)

    return load_dataset_for_path


def _from_config(original: Any) -> Any:
    def from_config(
        config: Any, z_table: Any, cutoff: float, heads: Any = None, **options: Any
    ) -> Any:
        if isinstance(config, Row):
            return Graph(config, z_table.zs, cutoff, heads or ["Default"])
        return original(config, z_table=z_table, cutoff=cutoff, heads=heads, **options)

    return from_config


def _apply_pseudolabels(foundation_model: Any, pt_head_config: Any, **options: Any) -> Any:
    """Labels the molecules of the replay head in memory, as MACE does."""
    collections = pt_head_config.collections
    for name in ("train", "valid"):
        structures = getattr(collections, name)
        if isinstance(structures, Structures):
            setattr(collections, name, [row.configuration() for row in structures])
    return multihead_tools.apply_pseudolabels_to_pt_head_configs(
        foundation_model=foundation_model, pt_head_config=pt_head_config, **options
    )


def _average_energies(structures: Any, z_table: Any) -> dict[int, float]:
    if isinstance(structures, Structures):
        return average_energies(structures, z_table.zs)
    return mace_data.utils.compute_average_E0s(structures, z_table)  # type: ignore[no-any-return]


def _with_configurations(original: Any) -> Any:
    def estimate(**options: Any) -> Any:
        structures = options["collections_train"]
        if isinstance(structures, Structures):
            options["collections_train"] = [row.configuration() for row in structures]
        return original(**options)

    return estimate
