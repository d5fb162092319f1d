"""Description, verification and statistics of files whose molecules are parsed on reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atompack_torch.datasets.sweeping import OnProgress, reporting
from atompack_torch.errors import AtompackError, FieldError, printable
from atompack_torch.formats.atp.inspection import count_labels, schema_of
from atompack_torch.formats.entry import Description, Head, Summary, WrongOptionError
from atompack_torch.formats.paths import listed
from atompack_torch.formats.text import labels_text
from atompack_torch.formats.verification import Fault, Verification, check_records
from atompack_torch.options import is_url

if TYPE_CHECKING:
    from atompack_torch.formats.parsed_files import ParsedFiles
    from atompack_torch.remote.files import RemoteFiles


class ParsedEntry:
    """The functions of ``inspection.entry.Entry`` for one class of data sets.

    Args:
        dataset_class: the class.
    """

    def __init__(self, dataset_class: type[ParsedFiles]) -> None:
        self._class: Any = dataset_class

    def open_dataset(self, path: Any, options: Mapping[str, Any]) -> ParsedFiles:
        """Opens a file, a list of files or a folder of them; of URLs, the class says more."""
        local = {name: value for name, value in options.items() if name != "storage_options"}
        has_urls = any(map(is_url, listed(path)))
        dataset: ParsedFiles = self._class(path, **(local if has_urls else options))
        return dataset

    def _open(self, paths: Sequence[str], **options: Any) -> ParsedFiles:
        try:
            dataset: ParsedFiles = self._class(paths[0] if len(paths) == 1 else paths, **options)
            return dataset
        except FieldError as error:
            raise WrongOptionError(str(error)) from None

    def describe(
        self,
        paths: Sequence[str],
        full: bool = False,
        progress: bool | OnProgress = False,
        remote: RemoteFiles | None = None,
    ) -> Description:
        """Describes files, or folders of them, as one data set.

        Args:
            paths: files and folders.
            full: count labels in all molecules, however many there are.
            progress: show a bar, or a function called with the number of molecules done since the
                last call.
            remote: not used.

        Returns:
            Sums over all files, ``schema``, ``labels`` and ``files``.
        """
        try:
            dataset = self._class(paths[0] if len(paths) == 1 else paths)
        except AtompackError as error:
            files = [{"path": path, "error": str(error)} for path in paths]
            document: dict[str, Any] = {"n_molecules": 0, "n_atoms": 0, "file_bytes": 0}
            document |= {"schema": {}, "labels": None, "files": files}
            return Description(document, f"{printable(paths[0])}: cannot be read", [str(error)])
        source = dataset._batcher().source
        errors = []
        labels = None
        try:
            labels = count_labels(source, full, progress)._asdict()
        except AtompackError as error:
            errors.append(str(error))
        files = dataset._describe_files()
        document = {
            **{key: sum(file[key] for file in files) for key in _SUMMED},
            "schema": schema_of(source),
            "labels": labels,
            "files": files,
        }
        return Description(document, _text(document), errors)

    def head(
        self,
        paths: Sequence[str],
        n: int,
        fields: Sequence[str] | None = None,
        remote: RemoteFiles | None = None,
    ) -> Head:
        """Reads the first molecules.

        Args:
            paths: files and folders, as one data set.
            n: maximum number of molecules.
            fields: labels to read; None: all.
            remote: not used.

        Returns:
            The molecules.

        Raises:
            WrongOptionError: a label that no file has.
        """
        return Head.of_molecules([self._open(paths, fields=fields)], n)

    def verify(
        self,
        paths: Sequence[str],
        max_faults: int,
        progress: bool | OnProgress,
        remote: RemoteFiles | None = None,
    ) -> Verification:
        """Parses every molecule.

        Args:
            paths: files and folders.
            max_faults: list at most this many faults.
            progress: show a bar, or a function called with the number of molecules done since the
                last call.
            remote: not used.

        Returns:
            The faults, and warnings about NaN and infinite values.

        Raises:
            OSError: a file cannot be opened.
        """
        result = Verification([*paths], Counter(molecules=0, bytes=0))
        try:
            dataset = self._class(paths[0] if len(paths) == 1 else paths, index=False)
            result.files = list(dataset._files)
            source = dataset._without_mapping()._batcher().source
        except AtompackError as error:
            result.add_fault(Fault(paths[0], None, str(error)), max_faults)
            return result
        with reporting(progress, len(dataset), "verifying") as report:
            found = check_records(source, result, max_faults, report, dataset._place_of)
        result.warnings = [
            f"{n} molecules store NaN or infinite values (field {name!r})"
            for name, n in sorted(found.items())
        ]
        return result

    def statistics(
        self,
        paths: Sequence[str],
        options: Mapping[str, Any],
        progress: bool | OnProgress,
        remote: RemoteFiles | None = None,
    ) -> Summary:
        """Gathers statistics of every molecule.

        Args:
            paths: files and folders, as one data set.
            options: ``cutoff``, ``features``, and options of the data set.
            progress: show a bar, or a function called with the number of molecules done since the
                last call.
            remote: not used.

        Returns:
            ``Statistics``, with a histogram of sizes in the text.
        """
        of_dataset = {"access": "sequential", **options}
        names = [name for name in ("cutoff", "features") if name in of_dataset]
        asked = {name: of_dataset.pop(name) for name in names}
        dataset = self._open(paths, **of_dataset)
        found = dataset.statistics(progress, **asked)
        place = None
        if found.max_force_molecule is not None:
            path, number = dataset._place_of(found.max_force_molecule)
            place = f"{path}: molecule {number}"
        return Summary.of_statistics(found, place)


_SUMMED = ("n_molecules", "n_atoms", "file_bytes")


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
