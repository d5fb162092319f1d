"""The command line of SevenNet, and statistics in its form."""

from __future__ import annotations

import glob
import math
from collections.abc import Iterable, Sequence
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
from sevenn._const import NUM_UNIV_ELEMENT
from sevenn.logger import Logger
from torch import Tensor
from torch.utils.data import random_split

from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.loading.loader import Loader
from atompack_torch.trainers._labels import require_labels
from atompack_torch.trainers._layout import open_dataset, selected_schema
from atompack_torch.trainers._samplers import all_batches, once_each
from atompack_torch.trainers.sevennet import FREE_ENERGY, make_layout

_RIDGE = 0.1  # penalty of the fit of reference energies, as in SevenNet


class DatasetStatistics:
    """Statistics of a dataset under the names of ``SevenNetGraphDataset``, in float64.

    Labels that are NaN are skipped.

    Args:
        batches: all batches of the dataset, with the atomic number as ``x``.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        names = ("total_energy", "per_atom_energy", "force_of_atoms", "stress")
        self._moments = {name: _Moments() for name in (*names, "num_neighbor")}
        self._atoms = torch.zeros(NUM_UNIV_ELEMENT, dtype=torch.float64)
        self._normal = torch.zeros((NUM_UNIV_ELEMENT,) * 2, dtype=torch.float64)
        self._projected = torch.zeros(NUM_UNIV_ELEMENT, dtype=torch.float64)
        self.n_structures = self.n_unlabeled = 0
        for batch in batches:
            self._add(batch)

    def _add(self, batch: Any) -> None:
        n_molecules = len(batch.num_atoms)
        for name, moments in self._moments.items():
            if name != "num_neighbor":
                moments.add(batch[name].reshape(-1))
        # As SevenNet counts: atoms without neighbors are skipped.
        _, counts = torch.unique_consecutive(batch.edge_index[0], return_counts=True)
        self._moments["num_neighbor"].add(counts.double())
        composition = torch.zeros((n_molecules, NUM_UNIV_ELEMENT), dtype=torch.float64)
        ones = torch.ones(len(batch.x), dtype=torch.float64)
        composition.index_put_((batch.batch, batch.x), ones, accumulate=True)
        self._atoms += composition.sum(0)
        lacks_forces = torch.zeros(n_molecules, dtype=torch.bool)
        lacks_forces[batch.batch[batch.force_of_atoms.isnan().any(1)]] = True
        has_energy = ~batch.total_energy.isnan()
        self.n_structures += n_molecules
        self.n_unlabeled += int((lacks_forces | ~has_energy).sum())
        composition, energies = composition[has_energy], batch.total_energy[has_energy]
        self._normal += composition.T @ composition
        self._projected += composition.T @ energies

    @property
    def statistics(self) -> dict[str, dict[str, float]]:
        """Name → mean, standard deviation and so on, for the log of SevenNet."""
        found = {name: m.as_dict() for name, m in self._moments.items() if m.count}
        atoms = {symbol: int(self._atoms[z]) for z, symbol in self._elements}
        return {**found, "natoms": {**atoms, "total": int(self._atoms.sum())}}

    @property
    def _elements(self) -> list[tuple[int, str]]:
        return [(z, SYMBOLS[z]) for z in self._atoms.nonzero().flatten().tolist()]

    @property
    def species(self) -> list[str]:
        """Symbols of the elements."""
        return [symbol for _, symbol in self._elements]

    @property
    def per_atom_energy_mean(self) -> float:
        """Mean of energy per atom over the molecules, in eV."""
        return self._moments["per_atom_energy"].mean

    @property
    def per_atom_energy_std(self) -> float:
        """Standard deviation of energy per atom, in eV."""
        return self._moments["per_atom_energy"].std

    @property
    def force_rms(self) -> float:
        """Root of the mean square of force components, in eV/Å."""
        return math.hypot(self._moments["force_of_atoms"].mean, self._moments["force_of_atoms"].std)

    @property
    def avg_num_neigh(self) -> float:
        """Mean number of neighbors of the atoms that have any."""
        return self._moments["num_neighbor"].mean

    @property
    def sqrt_avg_num_neigh(self) -> float:
        """Square root of the mean number of neighbors."""
        return math.sqrt(self.avg_num_neigh)

    @property
    def elemwise_reference_energies(self) -> list[float]:
        """Energy of each element by ridge regression, by atomic number, in eV."""
        present = self._atoms > 0
        normal = self._normal[present][:, present]
        penalty = _RIDGE * torch.eye(len(normal), dtype=torch.float64)
        energies = torch.zeros(NUM_UNIV_ELEMENT, dtype=torch.float64)
        energies[present] = torch.linalg.solve(normal + penalty, self._projected[present])
        return [float(energy) for energy in energies]


class _Moments:
    """Count, mean, sum of squared deviations and range, merged from batches."""

    def __init__(self) -> None:
        self.count = 0
        self._mean = self._squares = 0.0
        self._min, self._max = math.inf, -math.inf

    def add(self, values: Tensor) -> None:
        values = values[~values.isnan()].double()
        if not (n := len(values)):
            return
        mean = float(values.mean())
        total, difference = self.count + n, mean - self._mean
        self._squares += float((values - mean).square().sum())
        self._squares += difference**2 * self.count * n / total
        self._mean += difference * n / total
        self.count = total
        self._min = min(self._min, float(values.min()))
        self._max = max(self._max, float(values.max()))

    @property
    def mean(self) -> float:
        return self._mean if self.count else math.nan

    @property
    def std(self) -> float:
        return math.sqrt(self._squares / self.count) if self.count else math.nan

    def as_dict(self) -> dict[str, float]:
        spread = {"mean": self.mean, "std": self.std, "max": self._max, "min": self._min}
        return {**spread, "count": self.count}


_ALL_ELEMENTS = {number: number for number in range(119)}
_LABELS = {"energy_key": "energy", "force_key": "forces", "stress_key": "stress"}
# Options for graph files, which are not made here.
_WITHOUT_EFFECT = {"force_reload", "drop_info", "log", "transfer_info", "process_num_cores"}


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
        for loader in loaders.values():  # a resumed run continues with the orders of its epochs
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
    """One dataset of a config.

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
    """Opens one dataset of a config."""
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
    """Returns the paths of a dataset, and its weights."""
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
    return DatasetStatistics(all_batches(layout, part.dataset))


def _split(whole: _Part, ratio: float) -> dict[str, _Part]:
    """Splits off data for validation, with the random numbers that SevenNet uses."""
    numbers: Any = range(len(whole.dataset))
    split: list[Any] = random_split(numbers, (1.0 - ratio, ratio))
    named = zip(("trainset", "validset"), split, strict=True)
    return {n: whole._replace(dataset=whole.dataset.subset(part.indices)) for n, part in named}


def _loader(
    config: dict[str, Any], dataset: MoleculeDataset, is_train: bool = False
) -> Loader[Any]:
    """Makes the loader of a dataset, in which every rank has its share."""
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
