"""The command that converts other formats to .atp and back."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from atompack_torch.cli._arguments import (
    Command,
    argument,
    flag,
    group,
    integer,
    one_of,
    option_of,
    part,
    part_of,
    source_and_target,
)
from atompack_torch.cli._output import UsageError
from atompack_torch.cli._writing import (
    KEYS,
    OUTPUT,
    add_formats,
    changes,
    mode_of,
    show_report,
    target_options,
    wants_progress,
    writing_errors,
)

_COLLECTION = "atlas-collection"


class Convert(Command):
    """Converts atomistic data to .atp and back, NetCDF and Zarr to ATLAS stores.

      atompack-torch convert train.xyz train.atp --key REF_energy=energy
      atompack-torch convert md17.npz md17.atp --energy-unit kcal/mol
      atompack-torch convert data.atp - --to extxyz | gzip > data.extxyz.gz
      atompack-torch convert casts/*.nc profiles.atlas

    Formats are detected; - is standard input or output. Values stay as they are, except that labels
    that are all NaN become missing, and units that the source states become eV and Å.
    """

    help = "convert other formats to .atp and back"
    arguments = (
        source_and_target(
            "files, folders or URLs to read, in order", "the file to write, or its URL"
        ),
        *OUTPUT,
        lambda parser: add_formats(parser, "atlas", _COLLECTION),
        part("write part I of N to the folder TARGET"),
        one_of(
            flag("--overwrite", "replace TARGET"),
            flag("--append", "append to an .atp file or a store"),
        ),
        group(
            "fields",
            KEYS,
            integer("--padding", "atomic number of padding rows in arrays", metavar="Z"),
            argument(
                "--on-error",
                choices=("raise", "skip"),
                default="raise",
                metavar="ACTION",
                help="skip molecules that cannot be read, or raise (default)",
            ),
            argument(
                "--add",
                action="append",
                metavar="FILE.npz",
                help="add arrays, a row per molecule or atom; repeatable",
            ),
            flag("--replace-labels", "let --add replace fields of the source"),
        ),
        group(
            "changes of values",
            flag("--keep-nan", "keep labels that are all NaN (default: missing)"),
            changes(),
        ),
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        with writing_errors("--overwrite replaces it, --append adds to it"):
            if _is_export(options):
                report = _exported(options)
            else:
                report = _stored(options) if _are_datasets(options) else _report(options)
        show_report(options, report)
        return 0


def _report(options: argparse.Namespace) -> Any:
    from atompack_torch.conversion import convert

    return convert(
        options.source,
        options.target,
        padding=options.padding,
        nan_is_missing=not options.keep_nan,
        on_error=options.on_error,
        part=part_of(options),
        add=options.add,
        replace_labels=options.replace_labels,
        **target_options(options),
    )


def _are_datasets(options: argparse.Namespace) -> bool:
    from atompack_torch.conversion.xarray_files import datasets_at

    if options.target_format == "atlas":
        return True
    other = (options.source_format, options.target_format) != (None, None)
    return not other and any(map(datasets_at, options.source))


def _is_export(options: argparse.Namespace) -> bool:
    from atompack_torch.formats import recognize
    from atompack_torch.options import is_url

    if len(options.source) != 1 or is_url(options.source[0]):
        return False
    if options.target_format not in (None, "atlas", _COLLECTION):
        return False
    found = recognize(options.source[0]) if Path(options.source[0]).exists() else None
    return found is not None and found.name == "atlas-store"


def _exported(options: argparse.Namespace) -> Any:
    from atompack_torch.conversion import export_datasets

    is_copy = options.target_format or Path(options.target).suffix in ("", ".atlas")
    _check_for_stores(options, _FOR_STORES - ({"append"} if is_copy else {"codec", "append"}))
    if is_copy:
        return _copied(options)
    return export_datasets(
        options.source[0],
        options.target,
        mode="w" if options.overwrite else "x",
        progress=not (options.json or options.quiet),
    )


def _copied(options: argparse.Namespace) -> Any:
    from atompack_torch.conversion.xarray_files import copy_store
    from atompack_torch.formats import COLLECTION

    is_file = Path(options.target).name == COLLECTION
    is_collection = options.target_format == _COLLECTION or (not options.target_format and is_file)
    return copy_store(
        options.source[0],
        options.target,
        to="collection" if is_collection else "store",
        mode="w" if options.overwrite else "x",
        codec=options.codec or "zstd",
        level=options.level,
    )


_FOR_STORES = {"command", "source", "target", "target_format", "codec", "level", "json", "quiet"}
_FOR_STORES |= {"overwrite", "append", "on_error"}


def _check_for_stores(options: argparse.Namespace, allowed: set[str]) -> None:
    others = [name for name, value in vars(options).items() if value and name not in allowed]
    if others or options.on_error != "raise":
        raise UsageError(f"{option_of((others or ['on_error'])[0])}: is not for NetCDF and Zarr")


def _stored(options: argparse.Namespace) -> Any:
    from atompack_torch.conversion import convert_datasets

    _check_for_stores(options, _FOR_STORES)
    return convert_datasets(
        options.source,
        options.target,
        mode=mode_of(options),
        codec=options.codec,
        level=options.level,
        progress=wants_progress(options),
    )
