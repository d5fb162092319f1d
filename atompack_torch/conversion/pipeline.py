"""Conversion of sources to a target, block by block."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from atompack_torch.conversion.additions import Addition, Values
from atompack_torch.conversion.changes import Changes
from atompack_torch.conversion.edits import Edit
from atompack_torch.conversion.formats import open_source, sources_at, target_format, traits_of
from atompack_torch.conversion.job import Job, count_structures
from atompack_torch.conversion.part_reports import forget_report, keep_report, whole_report
from atompack_torch.conversion.parts import agree_on_plan, check_folder, part_path, warn_of_types
from atompack_torch.conversion.remote_ends import RemoteEnds
from atompack_torch.conversion.schema_unification import SchemaUnifier
from atompack_torch.conversion.together import Conversion, convert_together
from atompack_torch.errors import file_exists
from atompack_torch.fields import check_key_map
from atompack_torch.formats import Format, by_suffix
from atompack_torch.formats.atp.writer import Codec
from atompack_torch.formats.conversion_report import OnError, Report
from atompack_torch.formats.converter import Mode, TargetTraits
from atompack_torch.formats.extxyz.text_files import STDIN
from atompack_torch.options import (
    ChangeOptions,
    check_level,
    checked_path,
    is_url,
    with_options,
)
from atompack_torch.remote.objects import RemoteObjects
from atompack_torch.remote.staging import Options
from atompack_torch.remote.urls import shown_url

_Path = str | os.PathLike[str]


@with_options(ChangeOptions)
def convert(
    src: _Path | Sequence[_Path],
    dst: _Path,
    *,
    format: str | None = None,  # noqa: A002  (the word users look for)
    target: str | None = None,
    codec: Codec | None = None,
    level: int = 3,
    shards: tuple[int, int, int] | None = None,
    mode: Literal["x", "w", "a"] = "x",
    key_map: Mapping[str, str] | None = None,
    padding: int | None = None,
    changes: Changes | None = None,
    nan_is_missing: bool = True,
    on_error: OnError = "raise",
    progress: bool = True,
    storage_options: Mapping[str, object] | None = None,
    part: tuple[int, int] | None = None,
    add: Values | None = None,
    replace_labels: bool = False,
    **options: Any,
) -> Report:
    """Converts atomistic data to ``.atp``, or from it to the formats of other programs.

    Structures are streamed in blocks, so memory does not grow with the files (unless ASE's own
    reader loads a file whole). The output appears under its name when it is complete; after an
    error or an interrupt ``dst`` is unchanged. Values, units and signs are preserved, apart from
    ``changes``, all-NaN labels, which become missing, units that the source states or its data set
    is published in, which become eV and Å unless ``keep_units=True``, and virials and gradients of
    formats and data sets that are known to have them. The report names each of these changes;
    values that the target cannot represent are dropped and counted in it, and it warns of likely
    mistakes.

    The types of a property must agree within an ``.atp`` file: if they differ between structures
    and a wider type holds all of them, that type is used (the sources are then read a second
    time).

    With ``part=(i, n)`` this is one of n calls that share the work, on any machines that see the
    same folder: it converts the i-th of n equal ranges of all structures, in the order of the
    sources, to ``dst/part-0000i-of-0000n.atp``. The calls may run in any order, at once and again;
    a part that is there already is complete, and left alone; once none is missing, ``whole`` of
    the report is the sum of all. ``AtpDataset(dst)`` reads the parts in order as one data set.
    Sources that cannot be read from the middle are read whole by each call.

    Args:
        src: a file, a folder of ``.atp`` shards or of Atlas shards, or several of them, which are
            concatenated. Extended XYZ may be compressed (gzip, bzip2, xz), a FIFO, or ``"-"`` for
            standard input; its text is then kept in a temporary file (see ``TMPDIR``). URLs of
            ``.atp`` files are read where they are, all others are downloaded first.
        dst: the file to create, with ``part`` the folder; for a URL it is made in the temporary
            folder and then uploaded. ``"-"`` is standard output, to which ``target="extxyz"``
            writes structures as they are read.
        format: format of the sources: ``"atp"``, ``"shards"``, ``"extxyz"``, ``"ase-db"``,
            ``"aselmdb"``, ``"parquet"``, ``"npz"``, ``"hdf5"``, ``"mace-hdf5"``, ``"hdf5-set"``,
            ``"pymatgen-json"``, ``"deepmd"``, ``"deepmd-lmdb"``, ``"metatrain"``, ``"mtp-cfg"``,
            ``"ase"`` (any that ASE reads) or ``"ase:NAME"`` (with ASE's name for it), and others of
            the registry; None: detected by content, and by suffix where that does not tell.
        target: ``"atp"``, ``"shards"``, ``"extxyz"``, ``"ase-db"``, ``"aselmdb"``, ``"parquet"``,
            ``"deepmd"``, ``"metatrain"`` or ``"mace-hdf5"``; None: by the suffix of ``dst``, which
            folders do not have.
        codec: codec of an ``.atp`` target, as for ``AtpWriter``, or of Parquet (zstd by default).
        level: compression level.
        shards: examples per shard, examples per block and strategy, as for ``ShardWriter``; None:
            10000, 100 and 2.
        mode: ``"x"`` rejects an existing ``dst``, ``"w"`` replaces it (except shards), ``"a"``
            appends to an ``.atp``. With ``part`` an existing part is left alone by ``"x"`` and
            converted again by ``"w"``.
        key_map: name in the source → label or property here, e.g. ``{"REF_energy": "energy"}``.
        padding: atomic number of padding rows in NPZ and HDF5 files.
        changes: changes of units, signs and dtypes; or give them one by one.
        nan_is_missing: labels that are all NaN in a structure become missing, and are counted;
            False: they stay NaN.
        on_error: ``"skip"`` leaves out structures that cannot be read, and counts them.
        progress: show a progress bar on stderr.
        storage_options: options of the store of URLs; see ``AtpDataset``.
        part: number of this part, from 0, and number of parts; None: everything is converted to
            one file.
        add: an ``.npz`` file, a list of them, or a dict of arrays or tensors, whose arrays become
            fields of the structures, in the order of the sources: (M, ...) for M structures, or
            (N, ...) for N atoms in all. Names are those of new fields (``energy_pred``); where the
            lengths are equal, ``atom_properties/NAME`` is a property of atoms.
        replace_labels: let ``add`` replace fields that the sources have already.
        **options: fields of ``Changes``, such as ``energy_unit="kcal/mol"``.

    Returns:
        Counts of what was read, written, changed and left out, with warnings.

    Raises:
        FileExistsError: ``mode="x"`` and ``dst`` exists.
        CorruptFileError: a structure cannot be read.
        UnsupportedFormatError: a source is a socket or a device, or a pipe with another format than
            extended XYZ.
        FieldError: a label has the wrong shape, a name in ``key_map`` occurs in no structure, or an
            array of ``add`` has another length or the name of a field that exists.
        TypeError: an option is unknown, or given next to ``changes``.
        WriterLockedError: another process is converting the same part.
        ValueError: an option does not suit the formats, or ``dst`` holds parts of another
            conversion.
    """
    edits: list[Edit] = [] if add is None else [Addition(add, replace=replace_labels)]
    if edits and (part is not None or on_error != "raise"):
        raise ValueError("add: expected neither a part nor on_error='skip' with it")
    (report,) = convert_edited(
        src,
        [Output(dst, edits)],
        format=format,
        target=target,
        codec=codec,
        level=level,
        shards=shards,
        mode=mode,
        key_map=key_map,
        padding=padding,
        changes=changes,
        nan_is_missing=nan_is_missing,
        on_error=on_error,
        progress=progress,
        storage_options=storage_options,
        part=part,
        **options,
    )
    return report


class Output(NamedTuple):
    """Target of a conversion, and the edits of its structures, made in this order."""

    path: _Path
    edits: Sequence[Edit]


def convert_edited(
    src: _Path | Sequence[_Path],
    outputs: Sequence[Output],
    *,
    format: str | None = None,  # noqa: A002
    target: str | None = None,
    codec: Codec | None = None,
    level: int = 3,
    shards: tuple[int, int, int] | None = None,
    mode: Literal["x", "w", "a"] = "x",
    key_map: Mapping[str, str] | None = None,
    padding: int | None = None,
    changes: Changes | None = None,
    nan_is_missing: bool = False,
    on_error: OnError = "raise",
    progress: bool = True,
    storage_options: Mapping[str, object] | None = None,
    part: tuple[int, int] | None = None,
    **options: Any,
) -> list[Report]:
    """Converts with edits, to one or several targets; see ``convert`` for the other arguments.

    Args:
        src: the sources, which are read once for all targets.
        outputs: the targets; with ``part`` one.
        format: format of the sources.
        target: format of the targets.
        codec: codec of the targets.
        level: compression level.
        shards: sizes and strategy of shards.
        mode: what becomes of existing targets.
        key_map: renamings.
        padding: atomic number of padding rows.
        changes: changes of values.
        nan_is_missing: treatment of labels that are all NaN.
        on_error: treatment of structures that cannot be read.
        progress: show a progress bar.
        storage_options: options of the store of URLs.
        part: number of the part, and number of parts.
        **options: fields of ``changes``, if that is None.

    Returns:
        The report of each target.

    Raises:
        ValueError: an option does not suit the formats.
        FieldError: an edit does not suit the structures.
    """
    changes = _changes_of(changes, options)
    if mode not in ("x", "w", "a"):
        raise ValueError(f"mode: expected x, w or a, got {mode!r}")
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error: expected raise or skip, got {on_error!r}")
    paths = [src] if isinstance(src, (str, os.PathLike)) else [*src]
    if not paths:
        raise ValueError("src: expected at least one file, got none")
    remote = RemoteEnds(storage_options, progress=progress)
    folder = None
    if part is not None:
        ((folder, edits),) = outputs
        outputs = [Output(part_path(folder, part), edits)]
        if mode == "a":
            raise ValueError("mode: parts are not appended to")
    formats = [target_format(output.path, target) for output in outputs]
    if folder is not None and part is not None:
        if formats[0].source != "atp":
            raise ValueError(f"part: only .atp files are written in parts, not {formats[0].source}")
        path = os.fspath(outputs[0].path)
        done = _finished_part(folder, part, path, mode, storage_options)
        if done is not None:
            return [done]
    for output, known in zip(outputs, formats, strict=True):
        url = os.fspath(output.path)
        if traits_of(known).makes_folder and is_url(url) and by_suffix(url) is not known:
            raise ValueError(f"{shown_url(url)}: expected a local path, got a URL")
    with remote:
        targets = [
            _Target(
                known,
                output.edits,
                *remote.target(output.path, mode, has_shards=traits_of(known).has_shards),
            )
            for output, known in zip(outputs, formats, strict=True)
        ]
        paths = [file for path in paths for file in sources_at(remote.source(path, format), format)]
        for end in (
            *(path for path in paths if not is_url(path)),
            *(each.path for each in targets),
        ):
            checked_path(end)
        for each in targets:
            _check_target(each, codec, level, shards)
            _check_ends(paths, each)
        sources = [
            open_source(path, format, key_map or {}, padding, storage_options) for path in paths
        ]
        try:
            exact = part is not None or any(_need_count(output.edits) for output in outputs)
            counts = count_structures(sources, on_error, exact=exact)
            conversions = []
            for each in targets:
                job = Job(
                    sources,
                    key_map or {},
                    each.path,
                    each.format,
                    codec,
                    level,
                    shards,
                    each.mode == "a",
                    changes,
                    nan_is_missing,
                    progress,
                    on_error,
                    part,
                    counts,
                    each.edits,
                )
                conversions.append(Conversion(job, _types_of(each)))
            if folder is None or conversions[0].fit is None:
                return convert_together(conversions)
            given = {"format": format, "padding": padding, "on_error": on_error}
            return [_convert_part(conversions[0], folder, given, replace=targets[0].mode == "w")]
        finally:
            for source in sources:
                source.close()


def _changes_of(changes: Changes | None, options: Mapping[str, Any]) -> Changes:
    """Returns the changes given as such, or option by option."""
    check_key_map(options)
    if unknown := sorted(options.keys() - Changes.__dataclass_fields__.keys()):
        known = ", ".join(Changes.__dataclass_fields__)
        raise TypeError(f"{unknown[0]}: expected an option of convert or of Changes ({known})")
    if changes is None:
        return Changes(**options)
    if options:
        raise TypeError(f"{min(options)}: expected changes or single options, got both")
    return changes


class _Target(NamedTuple):
    """Local file or folder to write, its edits, and the mode in which it is opened."""

    format: Format
    edits: Sequence[Edit]
    path: _Path
    mode: Mode


def _types_of(target: _Target) -> SchemaUnifier | None:
    """Returns the types known before reading; None if those of a target need not agree."""
    if not traits_of(target.format).has_schema:
        return None
    return SchemaUnifier.of_file(target.path) if target.mode == "a" else SchemaUnifier()


def _need_count(edits: Sequence[Edit]) -> bool:
    return any(isinstance(edit, Addition) for edit in edits)


def _convert_part(
    conversion: Conversion, folder: _Path, given: Mapping[str, object], *, replace: bool
) -> Report:
    """Converts one part, once it is certain that all parts are of the same conversion."""
    job, fit = conversion
    assert job.part is not None
    assert fit is not None
    is_local = not is_url(folder)
    if is_local:
        plan = {
            **given,
            "parts": job.part[1],
            "structures": list(job.counts),
            "key_map": dict(job.keys),
            "changes": vars(job.changes),
            "nan_is_missing": job.nan_is_missing,
        }
        agree_on_plan(Path(folder), job.part, plan, replace=replace)
        forget_report(Path(job.dst))
    knows_types = job.learn_examples(fit)
    (report,) = convert_together([conversion])
    if is_local:
        if not knows_types:
            warn_of_types(Path(folder), report)
        keep_report(Path(job.dst), report)
        report.whole = whole_report(_part_files(folder, job.part))
    return report


def _part_files(folder: _Path, part: tuple[int, int]) -> list[Path]:
    return [Path(part_path(folder, (i, part[1]))) for i in range(part[1])]


def _finished_part(
    folder: _Path, part: tuple[int, int], path: str, mode: Mode, storage_options: Options
) -> Report | None:
    """Checks the folder of a part; returns a report if the part is there and stays."""
    if is_url(folder):
        exists = mode == "x" and RemoteObjects(path, storage_options).state(path) is not None
    else:
        check_folder(Path(folder), part)
        exists = mode == "x" and Path(path).exists()
    if not exists:
        return None
    report = Report()
    report.note(f"{shown_url(path)}: exists already, and was left alone")
    report.finish()
    if not is_url(folder):
        report.whole = whole_report(_part_files(folder, part))
    return report


def _check_ends(paths: Sequence[_Path], target: _Target) -> None:
    """Raises if the target is a source, or exists and must not."""
    dst = target.path
    if os.fspath(dst) == STDIN:
        return
    local = [path for path in paths if os.fspath(path) != STDIN and not is_url(path)]
    files = [path for path in local if Path(path).exists()]
    if any(Path(dst).exists() and Path(dst).samefile(path) for path in files):
        raise ValueError(f"{dst}: is a source itself")
    if target.mode == "x" and Path(dst).exists():
        raise file_exists(dst, _instead(traits_of(target.format)))


def _check_target(
    target: _Target, codec: Codec | None, level: int, shards: tuple[int, int, int] | None
) -> None:
    """Raises ValueError if targets of the format do not have an option."""
    dst, mode, source = target.path, target.mode, target.format.source
    traits = traits_of(target.format)
    if os.fspath(dst) == STDIN and source != "extxyz":
        raise ValueError(f"-: only extended XYZ is written to standard output, not {source}")
    if mode == "a" and mode not in traits.modes:
        raise ValueError(f"mode: {dst} is of format {source}, which is not appended to")
    if mode == "w" and mode not in traits.modes and Path(dst).exists():
        raise ValueError(f"mode: {source} are not replaced, take {dst} away first")
    if shards is not None and not traits.has_shards:
        raise ValueError(f"shards: only shards have them, {dst} is of format {source}")
    if traits.codecs:
        check_level(traits.codecs[0] if len(traits.codecs) == 1 else codec, level)


def _instead(traits: TargetTraits) -> str:
    """Returns the advice for a target that exists."""
    actions = {"w": "mode='w' replaces it", "a": "mode='a' appends to it"}
    offered = [text for mode, text in actions.items() if mode in traits.modes]
    return ", ".join(offered) or "remove it, or choose another path"
