"""Commands for files of descriptor features, and for the caches of this package."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atompack_torch.cli._arguments import (
    JSON,
    MAX_FAULTS,
    RESUME,
    STORAGE_OPTIONS,
    Command,
    add_commands,
    argument,
    check_at_least,
    flag,
    group,
    integer,
    option_of,
    part,
    part_of,
    part_of_environment,
    real,
    source_and_target,
    storage_options_of,
    threads,
)
from atompack_torch.cli._output import (
    UsageError,
    print_json,
    print_result,
    report_check,
    shows_progress,
    usage_errors,
)
from atompack_torch.cli._writing import writing_errors
from atompack_torch.cli.inspecting import print_description
from atompack_torch.errors import counted, printable
from atompack_torch.options import is_url, short_list

if TYPE_CHECKING:
    from atompack_torch import ChebyshevDescriptor, TorchCache
    from atompack_torch.datasets.base import MoleculeDataset

_LABELS = ["energy", "forces", "cell", "pbc", "name"]
_SETTINGS = ("rad_order", "rad_cutoff", "ang_order", "ang_cutoff")


class Build(Command):
    r"""Computes Chebyshev features of molecules and writes them to an HDF5 file for aenet-python.

      atompack-torch cache build water.atp water.h5 --species O,H --rad-order 10 --rad-cutoff 4 \
          --ang-order 3 --ang-cutoff 1.5 --force-derivatives
      atompack-torch cache build new.atp new.h5 --like water.h5
      atompack-torch cache build train/ train.h5 --like water.h5 --part 3/8

    SOURCE: .atp files, folders of shards, or one cache file, whose rows are recomputed. Entries that
    have forces get local derivatives with --force-derivatives. TARGET appears when it is complete; an
    interrupted run is resumed when it is started again. Under torchrun each process computes a part. With
    --part each of N runs does, in any order and on any machines that share the folder of TARGET; the one
    that completes the last part joins them.
    """  # noqa: E501

    help = "compute features of molecules into a new file"
    arguments = (
        source_and_target(
            "files or folders to read, in order, or URLs of .atp files",
            "the new file",
        ),
        group(
            "descriptor",
            argument("--like", metavar="FILE", help="use the descriptor of another cache file"),
            argument(
                "--species",
                metavar="A,B",
                help="symbols in this order (default: those of the data, by atomic number)",
            ),
            integer("--rad-order", "order of the radial functions"),
            real("--rad-cutoff", "R", "radial cutoff in the unit of the data (Å)"),
            integer("--ang-order", "order of the angular functions"),
            real("--ang-cutoff", "R", "angular cutoff in the unit of the data (Å)"),
            real("--min-cutoff", "R", "closer atoms are not neighbors (default: 0.55)"),
        ),
        group(
            "what is stored",
            argument(
                "--features",
                action=argparse.BooleanOptionalAction,
                default=True,
                help="store features of every entry (default: yes)",
            ),
            flag("--force-derivatives", "store derivatives of entries that have forces"),
            argument(
                "--dtype",
                choices=("float32", "float64"),
                help="dtype of the rows (default: that of --like, or float64)",
            ),
        ),
        part("compute a part of the entries"),
        threads(),
        RESUME,
        JSON,
        STORAGE_OPTIONS,
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        check_at_least(options, 1, "threads")
        if not (options.features or options.force_derivatives):
            raise UsageError(
                "--no-features: expected --force-derivatives too, as nothing is stored otherwise"
            )
        part = part_of(options)
        if part is None and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            part = part_of_environment(os.environ)
        if part is not None:
            return _build_part(options, part)
        from atompack_torch import build_cache

        dataset, descriptor, given = _inputs(options)
        with writing_errors("remove it, or choose another path"):
            made = build_cache(dataset, descriptor, options.target, **given)
        print_summary(options, made)
        return 0


def _inputs(
    options: argparse.Namespace,
) -> tuple[MoleculeDataset, ChebyshevDescriptor, dict[str, Any]]:
    """Returns the molecules, the descriptor, and the options of ``build_cache``."""
    if is_url(options.target):
        raise UsageError("expected a local TARGET, got a URL: build here, then upload the file")
    dataset = _source(options.source, _LABELS, storage_options_of(options))
    descriptor = _like(options) if options.like else _by_options(options)
    given = {
        "features": options.features,
        "force_derivatives": options.force_derivatives,
        "dtype": descriptor.dtype,
        "num_threads": options.threads or _cores_of_a_process(),
        "progress": shows_progress(options),
        "resume": not options.no_resume,
    }
    return dataset, descriptor, given


def _build_part(options: argparse.Namespace, part: tuple[int, int]) -> int:
    from atompack_torch.formats.torch_cache.building import BuildOptions, build_part

    dataset, descriptor, given = _inputs(options)
    made = build_part(dataset, descriptor, options.target, part, BuildOptions(**given))
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
    document = {
        "path": options.target,
        "n_entries": len(cache),
        "file_bytes": n_bytes,
        "features": cache.has_features,
        "force_derivatives": cache.has_force_derivatives,
        "storage_dtype": dtype,
        "descriptor": json.loads(str(cache.info["descriptor_compat_json"])),
    }
    sections = (("features", cache.has_features), ("derivatives", cache.has_force_derivatives))
    held = " and ".join(name for name, there in sections if there)
    name = printable(options.target)
    text = f"{name}: {len(cache):,} entries, {held} in {dtype}, {n_bytes:,} bytes"
    print_result(options, document, text)


def _cores_of_a_process() -> int:
    """Number of cores of this machine per process started on it by torchrun."""
    n_processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(1, len(os.sched_getaffinity(0)) // n_processes)


def _source(
    paths: list[str], labels: list[str], storage_options: dict[str, Any] | None
) -> MoleculeDataset:
    """Opens the molecules with those of the labels that they have."""
    from atompack_torch.datasets.base import MoleculeDataset
    from atompack_torch.formats.dispatch import open as open_path

    given: Any = {"storage_options": storage_options} if any(map(is_url, paths)) else {}
    with usage_errors():
        dataset = open_path(paths[0] if len(paths) == 1 else paths, convert=False, **given)
    if not isinstance(dataset, MoleculeDataset):
        raise UsageError(f"{paths[0]}: expected molecules, got {type(dataset).__name__}")
    present = tuple(label for label in labels if label in dataset.schema)
    return dataset.with_request(replace(dataset.request, fields=present))


def _like(options: argparse.Namespace) -> ChebyshevDescriptor:
    from atompack_torch import TorchCache

    given = [
        name for name in (*_SETTINGS, "min_cutoff", "species") if getattr(options, name) is not None
    ]
    if given:
        raise UsageError(f"--like: excludes {option_of(given[0])}")
    found = TorchCache(options.like).descriptor
    if found is None:
        raise UsageError(f"--like: expected a file that names its descriptor, got {options.like}")
    return found.with_dtype(options.dtype or found.dtype)


def _by_options(options: argparse.Namespace) -> ChebyshevDescriptor:
    from atompack_torch import ChebyshevDescriptor

    missing = [option_of(name) for name in _SETTINGS if getattr(options, name) is None]
    if missing:
        raise UsageError(f"expected {', '.join(missing)}, or --like FILE")
    species = _species(options)
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


def _species(options: argparse.Namespace) -> list[str]:
    """Returns the species that were given, or those of the data."""
    from atompack_torch.batch.elements import SYMBOLS, symbol

    if options.species is not None:
        given: list[str] = options.species.split(",")
        if unknown := [label for label in given if label not in SYMBOLS]:
            raise UsageError(f"--species: expected symbols of elements, got {unknown[0]!r}")
        return given
    dataset = _source(options.source, [], storage_options_of(options))
    elements = dataset.statistics(shows_progress(options)).elements
    species = [symbol(number) for number in sorted(elements)]
    if not species:
        raise UsageError("--species: expected symbols, as there are no atoms to take them from")
    if not options.json:
        print(f"species of the data: {','.join(species)}", file=sys.stderr)
    return species


class Info(Command):
    """Shows what is in a feature cache: entries, rows, the descriptor, the attributes of the file.

      atompack-torch cache info water.h5
      atompack-torch cache info --json water.h5 | jq .files[0].n_entries

    Only indexes and attributes are read, no rows.
    """

    help = "show entries, rows, descriptor, attributes"
    arguments = (
        argument("path", nargs="+", metavar="PATH", help="a cache file (HDF5)"),
        JSON,
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        from atompack_torch.formats.paths import Place
        from atompack_torch.formats.torch_cache.inspection import describe
        from atompack_torch.remote.files import RemoteFiles

        places = [Place(path, RemoteFiles()) for path in options.path]
        described = describe(places, full=False, progress=False)
        return print_description(options, described, "cache info")


class Verify(Command):
    """Reads a feature cache with all checks, recomputes its rows, and lists what is wrong.

      atompack-torch cache verify water.h5
      atompack-torch cache verify --quick --json water.h5

    Faults are violations of the format. Differences are features or derivatives that the file's own
    descriptor does not give for their molecules; derivatives are compared as forces for fixed weights,
    because rows may be in any order. aenet-python computes periodic entries with forces wrongly if an
    atom is outside of its cell: messages say so, and `cache build` recomputes such entries. The exit
    status is 1 if there is any fault or difference.
    """  # noqa: E501

    help = "read everything, recompute it, list what is wrong"
    arguments = (
        argument("path", metavar="PATH", help="a cache file (HDF5)"),
        JSON,
        flag("--quick", "only read, recompute nothing"),
        real(
            "--tolerance",
            "X",
            "largest difference allowed, relative to the largest number of an entry, or to 1 if "
            "that is more (default: 1e-9 for float64, 1e-4 for float32)",
        ),
        MAX_FAULTS,
        threads(),
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        from atompack_torch.formats.torch_cache.verification import verify_cache

        check_at_least(options, 0, "tolerance", "max_faults")
        check_at_least(options, 1, "threads")
        found = verify_cache(
            options.path,
            recompute=not options.quick,
            tolerance=options.tolerance,
            max_faults=options.max_faults,
            num_threads=options.threads,
            progress=shows_progress(options),
        )
        return report_check(found, options.json)


_COMMANDS = (Build(), Info(), Verify())


class Cache(Command):
    r"""Makes, shows and checks HDF5 files of descriptor features, as aenet-python has them.

      atompack-torch cache build water.atp water.h5 --rad-order 10 --rad-cutoff 4 \
          --ang-order 3 --ang-cutoff 1.5 --force-derivatives
      atompack-torch cache info water.h5
      atompack-torch cache verify --json water.h5
      atompack-torch cache --stats
      atompack-torch cache --prune 10000000000
      atompack-torch cache --stats /scratch/cache

    Each has options of its own: `atompack-torch cache build --help`. `--stats` and `--prune` are about
    other caches: the folder atompack_torch in XDG_CACHE_HOME or ~/.cache, with indexes, plain copies of
    compressed files and converted copies of others, or with FOLDER the one (`--block-cache`) with blocks
    of remote files, which other processes may be using. --prune removes the files of the former that
    were used longest ago; datasets that are open in other processes may lose theirs.
    """  # noqa: E501

    help = "make, show and check files of descriptor features"
    arguments = (
        argument(
            "--stats",
            metavar="FOLDER",
            nargs="?",
            const="",
            help="show the use of the cache of this user, or of a folder of blocks of remote files",
        ),
        integer("--prune", "reduce the cache of this user to at most BYTES", None, "BYTES"),
        flag("--json", "with --stats or --prune: print a JSON document"),
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the arguments and the commands."""
        parser.set_defaults(refuse=parser.error)
        super().add_arguments(parser)
        add_commands(parser, _COMMANDS, "subcommand", required=False)

    def needs_torch(self, options: argparse.Namespace) -> bool:
        """True if torch is imported before the command runs."""
        return bool(options.subcommand not in ("info", None))

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        wants_prune = options.prune is not None
        wants_stats = options.stats is not None
        if options.subcommand is None and not (wants_stats or wants_prune):
            names = ", ".join(one.name for one in _COMMANDS)
            options.refuse(f"expected one of {names}, --stats or --prune BYTES")
        if wants_stats + wants_prune + (options.subcommand is not None) > 1:
            options.refuse("--stats, --prune: expected no other command with it")
        if wants_prune:
            check_at_least(options, 0, "prune")
            return _prune(options)
        if wants_stats:
            return _show_blocks(options) if options.stats else _show_usage(options)
        return next(one for one in _COMMANDS if options.subcommand == one.name).run(options)


def _show_blocks(options: argparse.Namespace) -> int:
    """Shows the use of a folder with blocks of remote files.

    Only names, sizes and tables of the folder are read, without locks, so that other processes are
    not disturbed. The limit and the hits belong to the processes that use it.
    """
    from atompack_torch._native import block_cache_usage
    from atompack_torch.options import checked_path

    folder = checked_path(options.stats)
    usage = block_cache_usage(folder)
    text = (
        f"{printable(folder)}: {usage['bytes']:,} bytes on disk, {usage['pages']:,} blocks of "
        f"4,096 bytes, {counted(usage['objects'], 'object')}, {counted(usage['files'], 'file')}"
    )
    if usage["oldest_use"] is not None and usage["newest_use"] is not None:
        newest, oldest = _when(usage["newest_use"]), _when(usage["oldest_use"])
        text += f"\n  used last: {newest}; longest ago: {oldest}"
    print_result(options, {"path": folder, **usage}, text)
    return 0


def _show_usage(options: argparse.Namespace) -> int:
    from atompack_torch.formats.user_cache import cache_folders, usage

    used = usage()
    lines = [
        f"{kind}: {counted(n, 'file')}, {counted(n_bytes, 'byte')}"
        for kind, (n, n_bytes) in used.items()
    ]
    folders = [os.fspath(folder) for folder in cache_folders()]
    document = {"folders": folders, **{kind: own._asdict() for kind, own in used.items()}}
    print_result(options, document, "\n".join([", ".join(map(printable, folders)), *lines]))
    return 0


def _prune(options: argparse.Namespace) -> int:
    from atompack_torch.formats.user_cache import prune

    removed = prune(options.prune)
    print_result(
        options,
        {"removed": removed._asdict()},
        f"removed {counted(removed[0], 'file')}, {counted(removed[1], 'byte')}",
    )
    return 0


def _when(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
