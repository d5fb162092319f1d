"""Statistics of parts of ``.atp`` files, by several processes, and their sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from atompack_torch.datasets.partial_statistics import PartialStatistics, merge
from atompack_torch.datasets.sweeping import OnProgress
from atompack_torch.formats.atp import inspection as atp
from atompack_torch.formats.entry import Summary
from atompack_torch.options import files_in
from atompack_torch.publishing import published
from atompack_torch.remote.files import RemoteFiles


def write_partial_statistics(
    paths: Sequence[str],
    part: tuple[int, int],
    out: str,
    options: Mapping[str, Any],
    progress: bool | OnProgress,
    remote: RemoteFiles | None = None,
) -> Path:
    """Gathers statistics of a part of the molecules, and writes them to a file.

    Args:
        paths: files and folders, as one data set.
        part: number of the part, from 0, and number of parts.
        out: a file that ends in ``.json``, which is replaced; or a folder, in which the file is
            named after the part.
        options: ``cutoff``, ``features``, and options of ``AtpDataset``.
        progress: show a bar, or a function called with the number of molecules done since the last
            call.
        remote: access to URLs.

    Returns:
        The file.
    """
    of_dataset = {"access": "sequential", **options}
    asked = {name: of_dataset.pop(name) for name in ("cutoff", "features") if name in of_dataset}
    dataset = atp.open_files(paths, remote, **of_dataset)
    found = dataset._partial_statistics(part, progress, **asked)
    number = found.found["largest_force_at"]
    if number >= 0:
        found = replace(found, place=atp.place_of(paths, number, remote))
    target = Path(out)
    if target.suffix != ".json":
        target.mkdir(exist_ok=True)
        target = target / f"part-{part[0]:05}-of-{part[1]:05}.json"
    with published(target) as hidden:
        hidden.write_text(found.as_json())
    return target


def merged_statistics(paths: Sequence[str]) -> Summary:
    """Joins the statistics of all parts of a data set.

    Args:
        paths: files that ``write_partial_statistics`` has written, or folders of them.

    Returns:
        The statistics, as of a single pass.

    Raises:
        CorruptFileError: a file is something else.
        ValueError: parts are missing, there twice, or not of the same data set and options.
        FileNotFoundError: there is no such file.
    """
    files = [
        file
        for path in map(Path, paths)
        for file in (map(Path, files_in(path, ".json", is_deep=False)) if path.is_dir() else [path])
    ]
    parts = [PartialStatistics.of_json(file.read_text(), str(file)) for file in files]
    return Summary.of_statistics(*merge(parts))
