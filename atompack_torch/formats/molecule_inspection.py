"""Description, verification and statistics of molecules, whatever their format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from atompack_torch._native import BatchRequest, MoleculeSource, NanIsMissingSource, StatisticsPass
from atompack_torch.datasets.sweeping import OnProgress, available_threads, reporting, steps
from atompack_torch.errors import AtompackError, FieldError, printable
from atompack_torch.fields import RESERVED, FieldId, public_names
from atompack_torch.formats.entry import Description, Head, Summary, WrongOptionError
from atompack_torch.formats.paths import Place, listed
from atompack_torch.formats.text import labels_text
from atompack_torch.formats.verification import Fault, Verification, check_records
from atompack_torch.options import is_url

if TYPE_CHECKING:
    from atompack_torch.formats.parsed_files import ParsedFiles

_SAMPLE = 10_000  # molecules whose records are read, unless all are requested
_SUMMED = ("n_molecules", "n_atoms", "file_bytes")


def describe_molecules(
    files: list[dict[str, Any]],
    summed: Iterable[str],
    source: Callable[[], MoleculeSource] | None,
    full: bool,
    progress: bool | OnProgress,
) -> tuple[dict[str, Any], list[str]]:
    """Describes files as one dataset.

    Args:
        files: description of each file, which has ``"error"`` if it cannot be read.
        summed: keys of the descriptions whose values are added up.
        source: opens the molecules of the sound files; None without any.
        full: count labels in all molecules, however many there are.
        progress: show a bar, or a function called with the number of molecules done since the last
            call.

    Returns:
        Sums over all sound files, ``schema``, ``labels`` (None if a damaged record prevents
        counting) and ``files``; messages of errors.
    """
    errors = [file["error"] for file in files if "error" in file]
    schema: dict[str, Any] = {}
    labels = None
    try:
        if source is not None:
            opened = source()
            schema = _schema_of(opened)
            labels = _count_labels(opened, full, progress)
    except AtompackError as error:
        errors.append(str(error))
    total = {key: _sum(file[key] for file in files if "error" not in file) for key in summed}
    document = {**total, "schema": schema, "labels": labels, "files": files}
    return document, list(dict.fromkeys(errors))


def _count_labels(
    source: MoleculeSource, full: bool, progress: bool | OnProgress
) -> dict[str, Any]:
    """Counts labels in all records, or in a sample of a large dataset.

    Args:
        source: the molecules.
        full: count in all of them.
        progress: see ``describe_molecules``.

    Returns:
        ``molecules``: label → number of examined molecules that have it; ``nan``: label → number of
        those whose label is all NaN, where there are any; ``n_looked_at``: number of molecules
        whose records were read; ``exact``: True if these are all molecules, not a sample.
    """
    sample = None if full or len(source) <= _SAMPLE else _sample(len(source))
    n_looked_at = len(source) if sample is None else len(sample)
    with reporting(progress if full else False, 2 * n_looked_at, "statistics") as report:
        molecules = _coverage(source, sample, report)
        present = _coverage(NanIsMissingSource(source), sample, report)
    nan = {name: n - present.get(name, 0) for name, n in molecules.items()}
    return {
        "molecules": molecules,
        "nan": {name: n for name, n in nan.items() if n},
        "n_looked_at": n_looked_at,
        "exact": sample is None,
    }


def _coverage(source: MoleculeSource, sample: Any, report: OnProgress | None) -> dict[str, int]:
    no_references = [0.0] * 256
    threads = available_threads(None)
    counting = StatisticsPass(source, BatchRequest(), sample, no_references, None, threads)
    for _ in steps(counting, report):
        pass
    fields = counting.found()["coverage"]
    names = public_names([FieldId(scope, key) for scope, key, *_ in fields], RESERVED)
    return {name: field[3] for name, field in zip(names, fields, strict=True)}


def _sample(n: int) -> Any:
    """Samples one molecule from each of equal parts of ``n``, deterministically."""
    edges = np.arange(_SAMPLE + 1, dtype=np.int64) * n // _SAMPLE
    share = np.random.default_rng(0).random(_SAMPLE)
    return edges[:-1] + (share * np.diff(edges)).astype(np.int64)


def _schema_of(source: MoleculeSource) -> dict[str, Any]:
    """Describes the fields of a batch: name → dtype, level and shape of one row."""
    request = BatchRequest()
    outputs = request.output_fields(source)
    names = public_names([FieldId(scope, key) for scope, key, *_ in outputs], RESERVED)
    schema: dict[str, Any] = {
        "positions": {"dtype": request.positions(source), "level": "atom", "shape": (3,)},
        "atomic_numbers": {"dtype": "int64", "level": "atom", "shape": ()},
    }
    for name, (_, _, level, dtype, shape) in zip(names, outputs, strict=True):
        schema[name] = {"dtype": dtype, "level": level, "shape": shape}
    return schema


def _sum(values: Any) -> int | None:
    numbers = list(values)
    return None if None in numbers else sum(numbers)


class ParsedEntry:
    """The functions of ``Entry`` for files whose molecules are parsed on reading.

    Args:
        dataset_class: the class of their datasets.
    """

    def __init__(self, dataset_class: type[ParsedFiles]) -> None:
        self._class: Any = dataset_class

    def open_dataset(self, path: Any, options: Mapping[str, Any]) -> ParsedFiles:
        """Opens a file, a list of files or a folder of them; of URLs, the class says more."""
        local = {name: value for name, value in options.items() if name != "storage_options"}
        has_urls = any(map(is_url, listed(path)))
        dataset: ParsedFiles = self._class(path, **(local if has_urls else options))
        return dataset

    def _open(self, places: Sequence[Place], **options: Any) -> ParsedFiles:
        paths = [place.path for place in places]
        dataset: ParsedFiles = self._class(paths[0] if len(paths) == 1 else paths, **options)
        return dataset

    def _open_fields(self, places: Sequence[Place], **options: Any) -> ParsedFiles:
        try:
            return self._open(places, **options)
        except FieldError as error:
            raise WrongOptionError(str(error)) from None

    def describe(
        self, places: Sequence[Place], full: bool, progress: bool | OnProgress
    ) -> Description:
        """Describes files, or folders of them, as one dataset."""
        try:
            dataset = self._open(places)
        except AtompackError as error:
            files = [{"path": place.path, "error": str(error)} for place in places]
            found = describe_molecules(files, _SUMMED, None, full, progress)
            return Description(found[0], f"{printable(places[0].path)}: cannot be read", found[1])
        source = dataset.source()
        files = dataset._describe_files()
        document, errors = describe_molecules(files, _SUMMED, lambda: source, full, progress)
        return Description(document, _text(document), errors)

    def head(self, places: Sequence[Place], n: int, fields: Sequence[str] | None) -> Head:
        """Reads the first molecules."""
        return Head.of_items([self._open_fields(places, fields=fields)], n)

    def verify(
        self, places: Sequence[Place], max_faults: int, progress: bool | OnProgress
    ) -> Verification:
        """Parses every molecule; warns of NaN and infinite values."""
        paths = [place.path for place in places]
        result = Verification(paths, Counter(molecules=0, bytes=0))
        try:
            dataset = self._open(places, index=False)
            result.files = list(dataset._files)
            source = dataset.without_mapping().source()
        except AtompackError as error:
            result.add_fault(Fault(paths[0], None, str(error)), max_faults)
            return result
        with reporting(progress, len(dataset), "verifying") as report:
            check_records(source, result, max_faults, report, dataset._place_of)
        return result

    def statistics(
        self, places: Sequence[Place], options: Mapping[str, Any], progress: bool | OnProgress
    ) -> Summary:
        """Gathers statistics of every molecule."""
        options = {"access": "sequential", **options}
        return Summary.of_molecules(partial(self._open_fields, places), options, progress)


def _text(document: Mapping[str, Any]) -> str:
    files = document["files"]
    name = f"{len(files)} files" if len(files) > 1 else printable(files[0]["path"])
    lines = [f"{name}: {document['n_molecules']:,} molecules, {document['n_atoms']:,} atoms"]
    lines.append(labels_text(document["schema"], document["labels"]))
    lines += [
        f"{printable(file['path'])}: {file['n_molecules']:,} molecules, {file['n_atoms']:,} atoms, "
        f"{file['file_bytes']:,} bytes"
        for file in files
    ]
    return "\n".join(lines)
