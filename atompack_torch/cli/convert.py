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
    storage_options_of,
)
from atompack_torch.cli._output import UsageError
from atompack_torch.cli._writing import (
    KEYS,
    OUTPUT,
    add_formats,
    changes,
    changes_of,
    pairs_of,
    shards_of,
    show_report,
    writing_errors,
)

_COLLECTION = "atlas-collection"


class Convert(Command):
    """Converts atomistic data to .atp and back; NetCDF and Zarr to ATLAS stores and back.

    For example:

      atompack-torch convert run1.traj run2.traj all.atp --codec zstd
      atompack-torch convert train.extxyz train.atp --key REF_energy=energy --key REF_forces=forces
      atompack-torch convert md17.npz md17.atp --energy-unit kcal/mol --force-unit kcal/mol/Ang
      atompack-torch convert ani.h5 ani.atp --keep-units
      atompack-torch convert run.extxyz run.atp --key dE_dr=forces --force-sign flip
      atompack-torch convert run.extxyz run.atp --key REF_virials=stress --stress-from virial
      atompack-torch convert snap.json snap.atp --key outputs.stress=stress --stress-order vasp
      zcat train.extxyz.gz | atompack-torch convert - train.atp
      atompack-torch convert train.atp - --to extxyz | gzip > train.extxyz.gz
      atompack-torch convert data.atp data.db
      atompack-torch convert data.atp shards --to shards --shard-size 10000 --block-size 100
      atompack-torch convert casts/*.nc grids.zarr profiles.atlas
      atompack-torch convert profiles.atlas profiles.nc
      atompack-torch convert collection/ profiles.atlas
      atompack-torch convert profiles.atlas collection --to atlas-collection
      atompack-torch convert huge.aselmdb train/ --part 3/8
      atompack-torch convert test.atp predicted.extxyz --add predictions.npz

    Reads .atp files and folders of them, Atlas shards, extended XYZ (compressed by gzip, bzip2 or xz,
    too, and from pipes; - is standard input), ASE databases (.db, .aselmdb), NPZ and HDF5 arrays,
    MACE's HDF5, folders of DeePMD's npy systems, Parquet files and folders of them, JSON of pymatgen
    (also compressed), the HDF5 files of ANI, COMP6, SPICE and Transition1x, and everything else that
    ASE reads. The format is detected by content, and by suffix where the content does not tell. NetCDF
    files, Zarr groups and folders of them become datasets of a store, named after the files, and a
    store becomes one of them, its datasets groups, or a copy: a store that can be written to, also of a
    collection, or with --to atlas-collection, or if TARGET is data.atlas, a collection of atlas-python
    0.17. TARGET appears when it is complete. With --part
    TARGET is a folder, to which each of N runs, in any order and on any machines, adds its share of the
    molecules; a part that is there already is left alone, so that a job array can be submitted again.
    Values, units and signs are preserved unless an option changes them, but labels that are all NaN
    become missing, and units that the source states, virials, gradients and stresses in VASP's unit are
    converted where a dataset is known to have them (--keep-units keeps units); a report lists what was
    read, written, changed and omitted, and warns of likely mistakes.
    """  # noqa: E501

    name = "convert"
    help = "convert other formats to .atp and back"
    arguments = (
        source_and_target(
            "files, folders or URLs to read, in order", "the file to write, or its URL"
        ),
        *OUTPUT,
        lambda parser: add_formats(parser, "atlas", _COLLECTION),
        part("convert a part of the structures to a file of the folder TARGET"),
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
                help="skip drops structures that cannot be read (default: raise)",
            ),
            argument(
                "--add",
                action="append",
                metavar="FILE.npz",
                help="add arrays, such as predictions, as fields of their names: one row per "
                "structure, or per atom; may be repeated",
            ),
            flag("--replace-labels", "let --add replace fields that the source has already"),
        ),
        group(
            "changes of values",
            flag("--keep-nan", "keep labels that are all NaN (default: they become missing)"),
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
        format=options.source_format,
        target=options.target_format,
        codec=options.codec,
        level=options.level,
        shards=shards_of(options),
        mode="w" if options.overwrite else "a" if options.append else "x",
        key_map=pairs_of(options.key, "--key"),
        padding=options.padding,
        **changes_of(options),
        nan_is_missing=not options.keep_nan,
        on_error=options.on_error,
        progress=not (options.json or options.quiet),
        storage_options=storage_options_of(options),
        part=part_of(options),
        add=options.add,
        replace_labels=options.replace_labels,
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
        mode="w" if options.overwrite else "a" if options.append else "x",
        codec=options.codec,
        level=options.level,
        progress=not (options.json or options.quiet),
    )


COMMANDS = (Convert(),)
