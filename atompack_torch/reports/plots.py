"""Pictures for the command line, drawn by matplotlib: statistics and feature caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atompack_torch.batch.elements import symbol
from atompack_torch.datasets.statistics import Statistics
from atompack_torch.display.charts import integer_bins
from atompack_torch.fields import with_usual_unit
from atompack_torch.publishing import published

_MOST_BARS = 40


def plot_statistics(found: Statistics, path: str, title: str) -> None:
    """Draws sizes, elements, forces and energies by element, and the coverage of labels.

    Args:
        found: the statistics.
        path: the picture; its suffix is its format.
        title: name of the dataset.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: the picture cannot be written.
    """
    figure, axes = _axes(2, 3)
    shown = f"{title}: {found.n_molecules:,} molecules, {found.n_atoms:,} atoms"
    figure.suptitle(_plain(shown))
    _histogram(axes[0], found.sizes, "atoms per molecule", "molecules")
    elements = {symbol(z): count for z, count in found.elements.items()}
    _bars(axes[1], {s: count.n_atoms for s, count in elements.items()}, "atoms by element")
    counts = [count.n_atoms for count in elements.values()]
    if counts and max(counts) > 100 * min(counts):
        axes[1].set_yscale("log")
        axes[1].set_ylim(bottom=0.5)
    _bars(
        axes[2],
        {s: count.n_molecules for s, count in elements.items()},
        "molecules that contain the element",
    )
    rms = {s: count.force_rms for s, count in elements.items() if count.force_rms is not None}
    _bars(axes[3], rms, with_usual_unit("RMS of force components", "forces"))
    fit = found.reference_energies
    energies = {} if fit is None else {symbol(z): energy for z, energy in fit.energies.items()}
    _bars(axes[4], energies, with_usual_unit("reference energies", "energy"))
    n = max(found.n_molecules, 1)
    shares = {name: 100 * count / n for name, count in found.coverage.items()}
    _bars(axes[5], shares, "molecules with the label, %")
    _save(figure, path)


def plot_caches(files: Sequence[Mapping[str, Any]], path: str) -> None:
    """Draws entries, rows and sizes of feature caches, and the use of their entries.

    Args:
        files: documents of the files, with ``sizes`` (atoms per entry → entries) in each.
        path: the picture; its suffix is its format.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: the picture cannot be written.
    """
    figure, rows = _axes(len(files), 3)
    for i, file in enumerate(files):
        axes = rows[3 * i : 3 * i + 3]
        _histogram(axes[0], file["sizes"], "atoms per entry", "entries")
        axes[0].set_title(_plain(Path(file["path"]).name), loc="left")
        derivatives = file["force_derivatives"] or {}
        counts = {
            "all": file["n_entries"],
            "energy": file["n_with_energy"],
            "forces": file["n_with_forces"],
            "features": file["n_entries"] if file["features"] else 0,
            "derivatives": derivatives.get("n_rows", 0),
        }
        _bars(axes[1], counts, "entries that have it")
        sums = {
            "atoms": file["n_atoms"],
            "edges": derivatives.get("n_edges", 0),
            "triplets": derivatives.get("n_triplets", 0),
        }
        _bars(axes[2], sums, f"totals ({file['file_bytes'] / 2**20:,.1f} MiB)")
    _save(figure, path)


def _axes(n_rows: int, n_columns: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * n_columns, 3.1 * n_rows + 0.4), layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False).ravel().tolist()


def _histogram(axes: Any, counts: Mapping[int, int], label: str, unit: str) -> None:
    if counts:
        places, weights = [*counts], [*counts.values()]
        axes.hist(places, bins=integer_bins(min(places), max(places)), weights=weights)
    axes.set(xlabel=label, ylabel=f"number of {unit}")


def _bars(axes: Any, values: Mapping[str, float], title: str) -> None:
    names = [_plain(name if len(name) < 18 else name[:16] + "…") for name in values]
    places = range(len(names))
    axes.bar([*places][:_MOST_BARS], [*values.values()][:_MOST_BARS])
    is_short = len(names) < 13 and max(map(len, names), default=0) < 5
    rotation, alignment = (0, "center") if is_short else (60, "right")
    axes.set_xticks(
        [*places][:_MOST_BARS],
        names[:_MOST_BARS],
        rotation=rotation,
        ha=alignment,
        fontsize="small",
    )
    more = len(names) - _MOST_BARS
    axes.set_title(title + (f" (first {_MOST_BARS} of {len(names)})" if more > 0 else ""))
    axes.title.set_fontsize("medium")


def _plain(text: str) -> str:
    """Returns text in which matplotlib finds no formulas and no control characters."""
    printable = "".join(c if c.isprintable() else "?" for c in text)
    return printable.replace("$", r"\$")


def _save(figure: Any, path: str) -> None:
    target = Path(path)
    with published(target) as hidden:
        figure.savefig(hidden, dpi=130, format=target.suffix.removeprefix("."))
