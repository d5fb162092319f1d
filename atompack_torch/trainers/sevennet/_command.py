"""The command of SevenNet with data sets of this package in place of its own."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from typing import Any, NamedTuple

import sevenn.main.sevenn
import sevenn.parse_input
import sevenn.scripts.processing_epoch
import sevenn.scripts.train
import sevenn.train.atoms_dataset
import sevenn.train.graph_dataset
import sevenn.train.modal_dataset
import sevenn.util
import torch
from sevenn import _keys as keys
from sevenn.logger import Logger
from torch.utils.data import random_split

from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.loading.loader import Loader
from atompack_torch.loading.samplers import AtomBudgetBatchSampler
from atompack_torch.trainers._labels import require_labels
from atompack_torch.trainers._layout import open_dataset, selected_schema
from atompack_torch.trainers._samplers import once_each
from atompack_torch.trainers.sevennet._layout import FREE_ENERGY, make_layout
from atompack_torch.trainers.sevennet._statistics import DatasetStatistics

_ALL_ELEMENTS = {number: number for number in range(119)}
_LABELS = {"energy_key": "energy", "force_key": "forces", "stress_key": "stress"}
# Options for graph files, which are not made here.
_WITHOUT_EFFECT = {"force_reload", "drop_info", "log", "transfer_info", "process_num_cores"}
_ATOMS_AT_ONCE = 8192


def main() -> None:
    """Runs the command of SevenNet with the arguments of this process."""
    replace_readers()
    sevenn.main.sevenn.main()


def replace_readers() -> None:
    """Replaces the functions of SevenNet that open data and make loaders."""
    sevenn.train.graph_dataset.from_config = _datasets
    sevenn.train.atoms_dataset.from_config = _datasets
    sevenn.train.modal_dataset.from_config = _refuse_modalities
    sevenn.scripts.train.loader_from_config = _loader
    sevenn.scripts.train.train = _refuse_old_mode
    sevenn.parse_input.glob = _PathsAndUrls
    original = sevenn.scripts.processing_epoch.processing_epoch_v2

    def with_epochs(
        config: Any, trainer: Any, loaders: dict[str, Any], start_epoch: int = 1, **options: Any
    ) -> Any:
        for loader in loaders.values():  # a continued run goes on with the orders of its epochs
            loader.set_epoch(start_epoch)
        return original(config, trainer, loaders, start_epoch, **options)

    sevenn.scripts.processing_epoch.processing_epoch_v2 = with_epochs


class _PathsAndUrls:
    """Module ``glob`` that passes URLs through."""

    @staticmethod
    def glob(path: str) -> list[str]:
        return [path] if "://" in path else sorted(glob.glob(path))  # noqa: PTH207  # as given


def _refuse_modalities(*_: Any, **__: Any) -> None:
    raise ValueError(
        "use_modality: expected False; for several modalities give each its own "
        "atompack_torch.trainers.sevennet.loader(..., modality=...)"
    )


def _refuse_old_mode(*_: Any, **__: Any) -> None:
    raise ValueError("mode: expected train_v2, got train_v1, which only reads files of SevenNet")


class _Part(NamedTuple):
    """One data set of a config.

    Attributes:
        dataset: as opened.
        options: of its layout, less those of the model.
        weights: its ``data_weight``.
    """

    dataset: MoleculeDataset
    options: dict[str, Any]
    weights: dict[str, float]


def _datasets(
    config: dict[str, Any], working_dir: str = ".", dataset_keys: Sequence[str] | None = None
) -> dict[str, MoleculeDataset]:
    """Opens the data of a config, whose elements and statistics it completes."""
    listed = dataset_keys or [k for k in config if k.startswith("load_") and k.endswith("_path")]
    if keys.LOAD_TRAINSET not in listed:
        raise ValueError(f"{keys.LOAD_TRAINSET}: expected data to train on, got none")
    parts = {"_".join(key.split("_")[1:-1]): _open(config, key) for key in listed if config[key]}
    for name, part in parts.items():
        wanted = make_layout(_ALL_ELEMENTS, config[keys.CUTOFF], **part.options).wanted
        require_labels(part.dataset, wanted, trains=name == "trainset")
    if config.get(keys.DATASET_TYPE) == "graph" or config[keys.COMPUTE_STATISTICS]:
        _complete(config, parts)
    ratio = float(config.get(keys.RATIO) or 0.0)
    if "validset" not in parts and ratio > 0:
        parts |= _split(parts["trainset"], ratio)
    use_weights = config.get(keys.USE_WEIGHT, False)
    return {
        name: make_layout(
            config[keys.TYPE_MAP],
            config[keys.CUTOFF],
            weights=part.weights if use_weights else None,
            **part.options,
        ).dataset(part.dataset)
        for name, part in parts.items()
    }


def _open(config: dict[str, Any], key: str) -> _Part:
    """Opens one data set of a config."""
    options = _layout_options(config)
    paths, weights = _files(config[key], key)
    dataset = open_dataset(paths[0] if len(paths) == 1 else paths, options.pop("key_map"))
    options["has_free_energy"] = FREE_ENERGY in selected_schema(dataset)
    return _Part(dataset, options, weights)


def _layout_options(config: dict[str, Any]) -> dict[str, Any]:
    given = dict(config.get(keys.DATA_FORMAT_ARGS) or {})
    if (index := given.pop("index", ":")) != ":":
        raise ValueError(f"data_format_args: index: expected ':', got {index!r}")
    options: dict[str, Any] = {"allow_unlabeled": bool(given.pop("allow_unlabeled", False))}
    named = {_LABELS[name]: given.pop(name) for name in list(given) if name in _LABELS}
    options |= {label: label for label in named}
    options["key_map"] = {
        **(given.pop("key_map", None) or {}),
        **{name: label for label, name in named.items()},
    }
    if unknown := sorted(set(given) - _WITHOUT_EFFECT):
        raise ValueError(f"data_format_args: unknown option {unknown[0]!r}")
    return options


def _files(given: Any, key: str) -> tuple[list[str], dict[str, float]]:
    """Returns the paths of a data set, and its weights."""
    paths, weights = [], []
    for entry in [given] if isinstance(given, (str, dict)) else given:
        weights.append(entry.get(keys.DATA_WEIGHT, {}) if isinstance(entry, dict) else {})
        for part in entry["file_list"] if isinstance(entry, dict) else [{"file": entry}]:
            if unknown := sorted(set(part) - {"file", "data_format"}):
                raise ValueError(f"{key}: file_list: unknown option {unknown[0]!r}")
            paths.append(part["file"])
    if any(other != weights[0] for other in weights):
        raise ValueError(f"{key}: expected the same data_weight for all files")
    for path in paths:
        if path.endswith((".pt", ".sevenn_data")) or "structure_list" in path:
            raise ValueError(f"{path}: expected structures, got a file that only sevenn reads")
    return paths, weights[0]


def _complete(config: dict[str, Any], parts: dict[str, _Part]) -> None:
    """Logs statistics, and sets the elements, shift, scale and denominator that come from them."""
    log = Logger()
    found = {name: _statistics(part, config[keys.CUTOFF]) for name, part in parts.items()}
    for name, of_part in found.items():
        log.bar()
        log.writeline(f"{name} distribution:")
        log.statistic_write(of_part.statistics)
        log.format_k_v("# structures", of_part.n_structures, write=True)
        if of_part.n_unlabeled and not parts[name].options["allow_unlabeled"]:
            raise ValueError(
                f"{name}: expected energy and forces in all structures, {of_part.n_unlabeled} of "
                f"{of_part.n_structures} lack one: see allow_unlabeled of data_format_args"
            )
    log.bar()
    if all(config[k] == "auto" for k in (keys.CHEMICAL_SPECIES, keys.NUM_SPECIES, keys.TYPE_MAP)):
        log.writeline("Known species are obtained from the dataset")
        species = {symbol for of_part in found.values() for symbol in of_part.species}
        config.update(sevenn.util.chemical_species_preprocess(sorted(species)))
    for key in (keys.SHIFT, keys.SCALE, keys.CONV_DENOMINATOR):
        if isinstance(chosen := config[key], str):
            if not hasattr(DatasetStatistics, chosen):
                raise ValueError(f"{key}: expected a number or a statistic, got {chosen!r}")
            config[key] = getattr(found["trainset"], chosen)
            log.writeline(f"{key} is obtained from statistics")


def _statistics(part: _Part, cutoff: float) -> DatasetStatistics:
    options = {**part.options, "allow_unlabeled": True}
    layout = make_layout(_ALL_ELEMENTS, cutoff, dtype=torch.float64, **options)
    order = AtomBudgetBatchSampler(  # every rank reads all
        part.dataset, _ATOMS_AT_ONCE, shuffle=False, num_replicas=1, rank=0
    )
    return DatasetStatistics(Loader(layout.dataset(part.dataset), batch_sampler=order))


def _split(whole: _Part, ratio: float) -> dict[str, _Part]:
    """Splits off data for validation, with the random numbers that SevenNet uses."""
    numbers: Any = range(len(whole.dataset))
    split: list[Any] = random_split(numbers, (1.0 - ratio, ratio))
    named = zip(("trainset", "validset"), split, strict=True)
    return {n: whole._replace(dataset=whole.dataset.subset(part.indices)) for n, part in named}


def _loader(
    config: dict[str, Any], dataset: MoleculeDataset, is_train: bool = False
) -> Loader[Any]:
    """Makes the loader of a data set, in which every rank has its share."""
    sampler = once_each(
        dataset,
        batch_size=config[keys.BATCH_SIZE],
        shuffle=is_train and config[keys.TRAIN_SHUFFLE],
        seed=config[keys.RANDOM_SEED],
    )
    return Loader(
        dataset,
        batch_sampler=sampler,
        num_threads=config.get(keys.NUM_WORKERS) or None,
        pin_memory=torch.cuda.is_available(),
    )
