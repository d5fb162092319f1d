"""Conversion of sources to targets: the options, and the stages that they ask for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from atompack_torch.conversion.additions import Add, Values
from atompack_torch.conversion.changes import Changes, ChangeValues
from atompack_torch.conversion.checks import (
    CheckCells,
    CheckLabels,
    CheckNames,
    CheckOrder,
    ListNames,
    MaskNan,
)
from atompack_torch.conversion.formats import open_source, sources_at, target_format, traits_of
from atompack_torch.conversion.keys import KeyMap, MapKeys
from atompack_torch.conversion.parts import (
    agree_on_plan,
    check_folder,
    forget_report,
    keep_report,
    part_path,
    warn_of_types,
    whole_report,
)
from atompack_torch.conversion.pipe import Pipe, Reading, count_molecules, run_pipes
from atompack_torch.conversion.remote_ends import RemoteEnds
from atompack_torch.conversion.schema_unification import SchemaUnifier
from atompack_torch.conversion.stages import Stage
from atompack_torch.errors import FieldError, file_exists
from atompack_torch.fields import check_key_map, checked_names
from atompack_torch.formats import Format, by_suffix
from atompack_torch.formats.atp.writer import Codec
from atompack_torch.formats.conversion_report import OnError, Report
from atompack_torch.formats.converter import (
    Mode,
    Source,
    SourceOptions,
    TargetOptions,
    TargetTraits,
)
from atompack_torch.formats.paths import STDIN
from atompack_torch.options import (
    ChangeOptions,
    check_choice,
    check_level,
    checked_path,
    is_url,
    redact_path,
    shown_url,
    with_options,
)
from atompack_torch.remote.objects import RemoteObjects

_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Options:
    """Options of a conversion, as ``convert`` documents them.

    Raises:
        TypeError: ``key_map`` is not a mapping of names.
        ValueError: a mode or a treatment of errors that does not exist.
    """

    format: str | None = None
    target: str | None = None
    codec: Codec | None = None
    level: int = 3
    shards: tuple[int, int, int] | None = None
    mode: Mode = "x"
    key_map: Mapping[str, str] | None = None
    padding: int | None = None
    changes: Changes = field(default_factory=Changes)
    nan_is_missing: bool = False
    on_error: OnError = "raise"
    progress: bool = True
    storage_options: Mapping[str, object] | None = None
    part: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, ("x", "w", "a"))
        check_choice("on_error", self.on_error, ("raise", "skip"))
        checked_names(self.key_map)

    @property
    def keys(self) -> Mapping[str, str]:
        """Name in the source → name here."""
        return self.key_map or {}

    @contextmanager
    def open_sources(self, paths: Sequence[_Path]) -> Iterator[list[Source]]:
        """Opens the sources, and closes them at the end."""
        with ExitStack() as stack:
            sources = []
            for path in paths:
                given = SourceOptions("", self.keys, self.padding, self.storage_options)
                sources.append(open_source(path, self.format, given))
                stack.callback(sources[-1].close)
            yield sources


def stages_of(options: Options, edits: Sequence[Stage]) -> list[Stage]:
    """Makes the stages that the options ask for, in their order, except for the types of a target.

    Args:
        options: the options.
        edits: stages that come after the changes of values.

    Returns:
        The stages.
    """
    return [
        MapKeys(options.keys),
        CheckLabels(),
        *([MaskNan()] if options.nan_is_missing else []),
        CheckOrder(),
        CheckCells(),
        ChangeValues(options.changes, options.keys),
        ListNames(),
        *edits,
        CheckNames(),
    ]


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

    Molecules are streamed in blocks, so memory does not grow with the files (unless ASE's own
    reader loads a file whole). The output appears under its name when it is complete; after an
    error or an interrupt ``dst`` is unchanged. Values, units and signs are preserved, apart from
    ``changes``, all-NaN labels, which become missing, units that the source states or its dataset
    is published in, which become eV and Å unless ``keep_units=True``, and virials and gradients of
    formats and datasets that are known to have them. The report names each of these changes;
    values that the target cannot represent are dropped and counted in it, and it warns of likely
    mistakes.

    The types of a property must agree within an ``.atp`` file: if they differ between molecules
    and a wider type holds all of them, that type is used (the sources are then read a second
    time).

    With ``part=(i, n)`` this is one of n calls that share the work, on any machines that see the
    same folder: it converts the i-th of n equal ranges of all molecules, in the order of the
    sources, to ``dst/part-0000i-of-0000n.atp``. The calls may run in any order, in parallel and
    repeatedly; a part that already exists is complete, and left alone; once none is missing,
    ``whole`` of the report is the sum of all. ``AtpDataset(dst)`` reads the parts in order as one
    dataset. Sources that cannot be read from the middle are read whole by each call.

    Args:
        src: a file, a folder of ``.atp`` shards or of Atlas shards, or several of them, which are
            concatenated. Extended XYZ may be compressed (gzip, bzip2, xz), a FIFO, or ``"-"`` for
            standard input; its text is then kept in a temporary file (see ``TMPDIR``). URLs of
            ``.atp`` files are read where they are, all others are downloaded first.
        dst: the file to create, with ``part`` the folder; for a URL it is made in the temporary
            folder and then uploaded. ``"-"`` is standard output, to which ``target="extxyz"``
            writes molecules as they are read.
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
        nan_is_missing: labels that are all NaN in a molecule become missing, and are counted;
            False: they stay NaN.
        on_error: ``"skip"`` drops molecules that cannot be read, and counts them.
        progress: show a progress bar on stderr.
        storage_options: options of the store of URLs; see ``AtpDataset``.
        part: number of this part, from 0, and number of parts; None: everything is converted to
            one file.
        add: an ``.npz`` file, a list of them, or a dict of arrays or tensors, whose arrays become
            fields of the molecules, in the order of the sources: (M, ...) for M molecules, or
            (N, ...) for N atoms in all. Names are those of new fields (``energy_pred``); where the
            lengths are equal, ``atom_properties/NAME`` is a property of atoms.
        replace_labels: let ``add`` replace fields that the sources have already.
        **options: fields of ``Changes``, such as ``energy_unit="kcal/mol"``.

    Returns:
        Counts of what was read, written, changed and omitted, with warnings.

    Raises:
        FileExistsError: ``mode="x"`` and ``dst`` exists.
        CorruptFileError: a molecule cannot be read.
        UnsupportedFormatError: a source is a socket or a device, or a pipe with a different format
            than extended XYZ.
        FieldError: a label has the wrong shape, a name in ``key_map`` occurs in no molecule, or an
            array of ``add`` has a different length or the name of a field that exists.
        TypeError: an option is unknown, or given next to ``changes``.
        WriterLockedError: another process is converting the same part.
        ValueError: an option does not suit the formats, or ``dst`` holds parts of another
            conversion.
    """
    edits: list[Stage] = [] if add is None else [Add(add, replace=replace_labels)]
    if edits and (part is not None or on_error != "raise"):
        raise ValueError("add: expected neither a part nor on_error='skip' with it")
    given = Options(
        format,
        target,
        codec,
        level,
        shards,
        mode,
        key_map,
        padding,
        _changes_of(changes, options),
        nan_is_missing,
        on_error,
        progress,
        storage_options,
        part,
    )
    (report,) = convert_edited(src, [Output(dst, edits)], given)
    return report


class Output(NamedTuple):
    """Target of a conversion, and the stages that edit its molecules, in their order."""

    path: _Path
    edits: Sequence[Stage]


def convert_edited(
    src: _Path | Sequence[_Path], outputs: Sequence[Output], options: Options
) -> list[Report]:
    """Converts with edits, to one or several targets.

    Args:
        src: the sources, which are read once for all targets.
        outputs: the targets; with ``part`` one.
        options: the options, as for ``convert``.

    Returns:
        The report of each target.

    Raises:
        ValueError: an option does not suit the formats.
        FieldError: an edit does not suit the molecules.
    """
    paths = paths_of(src)
    folder = None
    if options.part is not None:
        ((folder, edits),) = outputs
        outputs = [Output(part_path(folder, options.part), edits)]
        if options.mode == "a":
            raise ValueError("mode: parts are not appended to")
    targets = [
        _Target(target_format(path, options.target), edits, path, options.mode)
        for path, edits in outputs
    ]
    if folder is not None:
        if targets[0].format.source != "atp":
            got = targets[0].format.source
            raise ValueError(f"part: only .atp files are written in parts, not {got}")
        done = _finished_part(folder, os.fspath(targets[0].path), options)
        if done is not None:
            return [done]
    for target in targets:
        url, known = os.fspath(target.path), target.format
        if traits_of(known).makes_folder and is_url(url) and by_suffix(url) is not known:
            raise ValueError(f"{shown_url(url)}: expected a local path, got a URL")
    with RemoteEnds(options.storage_options, progress=options.progress) as remote:
        targets = [target.local(remote) for target in targets]
        format = options.format  # noqa: A001
        paths = [file for path in paths for file in sources_at(remote.source(path, format), format)]
        local = [path for path in paths if not is_url(path)]
        for end in (*local, *(each.path for each in targets)):
            checked_path(end)
        for each in targets:
            _check_target(each, options)
            _check_ends(paths, each)
        with options.open_sources(paths) as sources:
            edits = [edit for output in outputs for edit in output.edits]
            exact = options.part is not None or any(edit.needs_count for edit in edits)
            counts = count_molecules(sources, options.on_error, exact=exact)
            reading = Reading(sources, counts, options.part, options.on_error, options.changes)
            if folder is not None:
                return [_convert_part(reading, targets[0], folder, options)]
            pipes = [_pipe_to(each, options, _types_of(each)) for each in targets]
            return run_pipes(reading, pipes, progress=options.progress)


def paths_of(src: _Path | Sequence[_Path]) -> list[_Path]:
    """Returns the paths of sources, of which there must be one.

    Args:
        src: a path, or several.

    Returns:
        The paths.

    Raises:
        ValueError: there is none.
    """
    paths = [src] if isinstance(src, (str, os.PathLike)) else [*src]
    if not paths:
        raise ValueError("src: expected at least one file, got none")
    return paths


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
    """File or folder to write, its edits, and the mode in which it is opened."""

    format: Format
    edits: Sequence[Stage]
    path: _Path
    mode: Mode

    def local(self, remote: RemoteEnds) -> _Target:
        """Returns the target as a local file or folder."""
        has_shards = traits_of(self.format).has_shards
        path, mode = remote.target(self.path, self.mode, has_shards=has_shards)
        return self._replace(path=path, mode=mode)


def _types_of(target: _Target) -> SchemaUnifier | None:
    """Returns the types known before reading; None if those of a target need not agree."""
    if not traits_of(target.format).has_schema:
        return None
    return SchemaUnifier.of_file(target.path) if target.mode == "a" else SchemaUnifier()


def _pipe_to(target: _Target, options: Options, types: SchemaUnifier | None) -> Pipe:
    own = TargetOptions(Report(), target.mode == "a", options.codec, options.level, options.shards)
    stages = stages_of(options, target.edits)
    return Pipe(target.path, target.format, own, stages, types)


def _convert_part(reading: Reading, target: _Target, folder: _Path, options: Options) -> Report:
    """Converts one part, once it is certain that all parts are of the same conversion."""
    part, path, types = options.part, Path(target.path), SchemaUnifier()
    assert part is not None
    is_local = not is_url(folder)
    if is_local:
        plan = {
            "format": options.format,
            "padding": options.padding,
            "on_error": options.on_error,
            "parts": part[1],
            "structures": list(reading.counts),
            "key_map": dict(options.keys),
            "changes": vars(options.changes),
            "nan_is_missing": options.nan_is_missing,
        }
        agree_on_plan(Path(folder), part, plan, replace=target.mode == "w")
        forget_report(path)
    knows_types = _learn_examples(reading, types, options)
    pipe = _pipe_to(target, options, types)
    (report,) = run_pipes(reading, [pipe], progress=options.progress)
    if is_local:
        if not knows_types:
            warn_of_types(Path(folder), report)
        keep_report(path, report)
        report.whole = whole_report(Path(folder), part[1])
    return report


def _learn_examples(reading: Reading, types: SchemaUnifier, options: Options) -> bool:
    """Learns the types of sources that know them before they are read.

    Args:
        reading: the sources of a part.
        types: learns the types.
        options: the options.

    Returns:
        True if the types of all molecules will be known, not only those of the part.
    """
    is_known = True
    is_virial = "stress" in options.keys.values()
    for source, count in zip(reading.sources, reading.counts, strict=True):
        if source.read_range is None or not count:
            continue
        report = Report()
        try:
            example = source.example()
            if example is None:
                is_known = False
                continue
            columns = KeyMap(source.other_keys(options.keys)).apply(example, report)
            types.learn(options.changes.apply(columns, report, is_virial=is_virial))
        except FieldError:  # keys need values of other shapes
            is_known = False
    return is_known


def _finished_part(folder: _Path, path: str, options: Options) -> Report | None:
    """Checks the folder of a part; returns a report if the part exists and stays."""
    is_new, part = options.mode == "x", options.part
    assert part is not None
    if is_url(folder):
        exists = is_new and RemoteObjects(path, options.storage_options).state(path) is not None
    else:
        check_folder(Path(folder), part)
        exists = is_new and Path(path).exists()
    if not exists:
        return None
    report = Report()
    report.note(f"{redact_path(path)}: exists already, and was left alone")
    report.finish()
    if not is_url(folder):
        report.whole = whole_report(Path(folder), part[1])
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


def _check_target(target: _Target, options: Options) -> None:
    """Raises ValueError if targets of the format do not have an option."""
    dst, mode, source = target.path, target.mode, target.format.source
    traits = traits_of(target.format)
    if os.fspath(dst) == STDIN and source != "extxyz":
        raise ValueError(f"-: only extended XYZ is written to standard output, not {source}")
    if mode == "a" and mode not in traits.modes:
        raise ValueError(f"mode: {dst} is of format {source}, which is not appended to")
    if mode == "w" and mode not in traits.modes and Path(dst).exists():
        raise ValueError(f"mode: {source} targets cannot be overwritten: delete {dst} first")
    if options.shards is not None and not traits.has_shards:
        raise ValueError(
            f"{dst}: shard sizes and strategy: expected Atlas shards as the target, got {source}"
        )
    codecs = traits.codecs or ("none",)
    if options.codec is not None and options.codec not in codecs:
        known = ", ".join(codecs)
        raise ValueError(f"{dst}: codec: expected {known} for {source}, got {options.codec}")
    check_level(options.codec or (None if mode == "a" else codecs[0]), options.level)


def _instead(traits: TargetTraits) -> str:
    """Returns the advice for a target that exists."""
    actions = {"w": "mode='w' replaces it", "a": "mode='a' appends to it"}
    offered = [text for mode, text in actions.items() if mode in traits.modes]
    return ", ".join(offered) or "remove it, or choose another path"
