r"""Computes Chebyshev features of molecules and writes them to an HDF5 file for aenet-python.

  atompack-torch cache build water.atp water.h5 --species O,H --rad-order 10 --rad-cutoff 4 \
      --ang-order 3 --ang-cutoff 1.5 --force-derivatives
  atompack-torch cache build new.atp new.h5 --like water.h5
  torchrun --nproc-per-node 4 -m atompack_torch cache build train/ train.h5 --like water.h5
  atompack-torch cache build train/ train.h5 --like water.h5 --part 3/8

SOURCE: .atp files, folders of shards, or one cache file, whose rows are recomputed. Entries that
have forces get local derivatives with --force-derivatives. TARGET appears when it is complete; an
interrupted run is resumed when it is started again. Under torchrun each process computes a part,
and the first one joins them. With --part each of N runs computes a part, in any order and on any
machines that share the folder of TARGET; the one that completes the last part joins them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atompack_torch.cli._options import (
    add_json,
    add_resume,
    add_source_and_target,
    add_threads,
    check_at_least,
    option_of,
)
from atompack_torch.cli._output import (
    UsageError,
    print_json,
    shows_progress,
    usage_errors,
)
from atompack_torch.cli._parts import add_part, part_of
from atompack_torch.cli._storage_options import add_storage_options, storage_options_of
from atompack_torch.errors import printable
from atompack_torch.options import is_url, short_list

if TYPE_CHECKING:
    from atompack_torch import ChebyshevDescriptor, TorchCache
    from atompack_torch.datasets.base import MoleculeDataset
    from atompack_torch.formats.entry import Entry

NAME = "build"
HELP = "compute features of molecules into a new file"

_LABELS = ["energy", "forces", "cell", "pbc", "name"]
_SETTINGS = ("rad_order", "rad_cutoff", "ang_order", "ang_cutoff")
_PATIENCE = timedelta(days=7)  # time that finished ranks wait for the others


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_source_and_target(
        parser,
        "files or folders to read, in order, or URLs of .atp files",
        "the new file, or its URL",
    )
    descriptor = parser.add_argument_group("descriptor")
    descriptor.add_argument(
        "--like", metavar="FILE", help="use the descriptor of another cache file"
    )
    descriptor.add_argument(
        "--species",
        metavar="A,B",
        help="symbols in this order (default: those of the data, by atomic number)",
    )
    descriptor.add_argument(
        "--rad-order", type=int, metavar="N", help="order of the radial functions"
    )
    descriptor.add_argument(
        "--rad-cutoff", type=float, metavar="R", help="radial cutoff in the unit of the data (Å)"
    )
    descriptor.add_argument(
        "--ang-order", type=int, metavar="N", help="order of the angular functions"
    )
    descriptor.add_argument(
        "--ang-cutoff", type=float, metavar="R", help="angular cutoff in the unit of the data (Å)"
    )
    descriptor.add_argument(
        "--min-cutoff",
        type=float,
        metavar="R",
        help="closer atoms are not neighbors (default: 0.55)",
    )
    rows = parser.add_argument_group("what is stored")
    rows.add_argument(
        "--features",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="store features of every entry (default: yes)",
    )
    rows.add_argument(
        "--force-derivatives",
        action="store_true",
        help="store derivatives of entries that have forces",
    )
    rows.add_argument(
        "--dtype",
        choices=("float32", "float64"),
        help="dtype of the rows (default: that of --like, or float64)",
    )
    add_part(parser, "compute a part of the entries")
    add_threads(parser)
    add_resume(parser)
    add_json(parser)
    add_storage_options(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    check_at_least(options, 1, "threads")
    if not (options.features or options.force_derivatives):
        raise UsageError(
            "--no-features: expected --force-derivatives too, as nothing is stored otherwise"
        )
    part = part_of(options)
    if part is not None:
        return _build_part(options, part)
    with _ranks() as rank:
        cache = _build(options, rank)
    if rank > 0:
        return 0
    print_summary(options, cache)
    return 0


def _build(options: argparse.Namespace, rank: int) -> TorchCache:
    from atompack_torch import build_cache

    dataset = _source(options.source, _LABELS, storage_options_of(options))
    descriptor = _like(options) if options.like else _by_options(options, rank)
    return build_cache(
        dataset,
        descriptor,
        options.target,
        features=options.features,
        force_derivatives=options.force_derivatives,
        dtype=descriptor.dtype,
        num_threads=options.threads or _cores_of_a_rank(),
        progress=shows_progress(options),
        resume=not options.no_resume,
        storage_options=storage_options_of(options),
    )


def _build_part(options: argparse.Namespace, part: tuple[int, int]) -> int:
    from atompack_torch.formats.torch_cache.build_identity import BuildOptions
    from atompack_torch.formats.torch_cache.part_building import build_part

    if is_url(options.target):
        raise UsageError("--part: expected a local TARGET, got a URL")
    dataset = _source(options.source, _LABELS, storage_options_of(options))
    descriptor = _like(options) if options.like else _by_options(options, 0)
    made = build_part(
        dataset,
        descriptor,
        options.target,
        part,
        BuildOptions(
            features=options.features,
            force_derivatives=options.force_derivatives,
            dtype=descriptor.dtype,
            num_threads=options.threads or _cores_of_a_rank(),
            progress=shows_progress(options),
            resume=not options.no_resume,
        ),
    )
    if not isinstance(made, list):
        print_summary(options, made)
    elif options.json:
        print_json({"path": options.target, "part": [*part], "missing_parts": made})
    else:
        missing = short_list(made, len(made))
        name = printable(options.target)
        print(f"{name}: part {part[0]} of {part[1]} is complete, missing parts: {missing}")
    return 0


def print_summary(options: argparse.Namespace, cache: TorchCache) -> None:
    """Prints a summary of the new cache."""
    n_bytes = Path(cache.path).stat().st_size
    dtype = cache.info["storage_dtype"]
    if options.json:
        return print_json(
            {
                "path": options.target,
                "n_entries": len(cache),
                "file_bytes": n_bytes,
                "features": cache.has_features,
                "force_derivatives": cache.has_force_derivatives,
                "storage_dtype": dtype,
                "descriptor": json.loads(str(cache.info["descriptor_compat_json"])),
            }
        )
    sections = (("features", cache.has_features), ("derivatives", cache.has_force_derivatives))
    held = " and ".join(name for name, there in sections if there)
    print(
        f"{printable(options.target)}: {len(cache):,} entries, {held} in {dtype}, {n_bytes:,} bytes"
    )


@contextmanager
def _ranks() -> Iterator[int]:
    """Provides the rank of this process among those started by torchrun."""
    if "RANK" not in os.environ or os.environ.get("WORLD_SIZE", "1") == "1":
        yield 0
        return
    import torch.distributed

    try:
        torch.distributed.init_process_group("gloo", timeout=_PATIENCE)
    except (ValueError, RuntimeError) as error:
        raise UsageError(f"torch.distributed: {error}") from error
    try:
        yield torch.distributed.get_rank()
    finally:
        torch.distributed.destroy_process_group()


def _cores_of_a_rank() -> int:
    """Number of cores of this machine per process started on it by torchrun."""
    n_processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(1, len(os.sched_getaffinity(0)) // n_processes)


def _source(
    paths: list[str], labels: list[str], storage_options: dict[str, Any] | None
) -> MoleculeDataset:
    """Opens the molecules with those of the labels that they have."""
    from atompack_torch.datasets.base import MoleculeDataset
    from atompack_torch.formats.dispatch import entry_of
    from atompack_torch.formats.paths import located
    from atompack_torch.formats.table import ATP_ENTRY

    path = paths[0] if len(paths) == 1 else paths
    with usage_errors():
        given: dict[str, Any] = {}
        if any(map(is_url, paths)):
            entry: Entry = importlib.import_module(ATP_ENTRY)
            given["storage_options"] = storage_options
        else:
            entry = entry_of(located(paths))
        present = entry.open_dataset(path, {"fields": [], **given}).schema
        found = [label for label in labels if label in present]
        dataset = entry.open_dataset(path, {"fields": found, **given})
    if not isinstance(dataset, MoleculeDataset):
        raise UsageError(f"{paths[0]}: expected molecules, got {type(dataset).__name__}")
    return dataset


def _like(options: argparse.Namespace) -> ChebyshevDescriptor:
    from atompack_torch import TorchCache

    given = [name for name in (*_SETTINGS, "min_cutoff", "species") if _given(options, name)]
    if given:
        raise UsageError(f"--like: expected it alone, got {option_of(given[0])} too")
    found = TorchCache(options.like).descriptor
    if found is None:
        raise UsageError(f"--like: expected a file that names its descriptor, got {options.like}")
    return found._of_dtype(options.dtype or found.dtype)


def _by_options(options: argparse.Namespace, rank: int) -> ChebyshevDescriptor:
    from atompack_torch import ChebyshevDescriptor

    missing = [option_of(name) for name in _SETTINGS if not _given(options, name)]
    if missing:
        raise UsageError(f"expected {', '.join(missing)}, or --like FILE")
    species = _species(options, rank)
    try:
        return ChebyshevDescriptor(
            species,
            options.rad_order,
            options.rad_cutoff,
            options.ang_order,
            options.ang_cutoff,
            0.55 if options.min_cutoff is None else options.min_cutoff,
            options.dtype or "float64",
        )
    except ValueError as error:
        raise UsageError(str(error)) from None


def _species(options: argparse.Namespace, rank: int) -> list[str]:
    from atompack_torch.batch.elements import SYMBOLS

    if options.species is None:
        return _species_in(options, rank)
    species: list[str] = options.species.split(",")
    unknown = [label for label in species if label not in SYMBOLS]
    if unknown:
        raise UsageError(f"--species: expected symbols of elements, got {unknown[0]!r}")
    return species


def _species_in(options: argparse.Namespace, rank: int) -> list[str]:
    from atompack_torch.batch.elements import symbol

    progress = shows_progress(options) and rank == 0
    dataset = _source(options.source, [], storage_options_of(options))
    elements = dataset.statistics(progress).elements
    species = [symbol(number) for number in sorted(elements)]
    if not species:
        raise UsageError("--species: expected symbols, as there are no atoms to take them from")
    if not options.json and rank == 0:
        print(f"species of the data: {','.join(species)}", file=sys.stderr)
    return species


def _given(options: argparse.Namespace, name: str) -> bool:
    return getattr(options, name) is not None
