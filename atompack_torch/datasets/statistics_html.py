"""HTML of statistics for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from atompack_torch.batch.elements import symbol
from atompack_torch.display.charts import meter
from atompack_torch.display.elements import chips
from atompack_torch.display.fragments import counted_histogram, field_table, fragment
from atompack_torch.display.markup import Markup, number, percent, table
from atompack_torch.fields import with_usual_unit

if TYPE_CHECKING:
    from atompack_torch.datasets.statistics import Spread, Statistics


def statistics_html(found: Statistics) -> str:
    """Returns tables of spreads, elements and coverage, and the sizes of the molecules."""
    n = found.n_molecules
    spreads: dict[str, Spread | None] = {
        with_usual_unit("energy", "energy"): found.energy,
        with_usual_unit("energy per atom", "energy"): found.energy_per_atom,
        with_usual_unit("forces", "forces"): found.forces,
    }
    rows = [
        (name, f"{s.count:,}", *map(number, (s.mean, s.std, s.min, s.max)))
        for name, s in spreads.items()
        if s is not None
    ]
    head = ("", "values", "mean", "std", "min", "max")
    covered = [
        (name, meter(count, n, f"{percent(count, n)} ({count:,})"))
        for name, count in found.coverage.items()
    ]
    return fragment(
        "Statistics",
        f"{n:,} molecules, {found.n_atoms:,} atoms",
        chips({z: count.n_atoms for z, count in found.elements.items()}, symbol, most=24),
        table(head, rows, numeric=range(1, 6)) if rows else Markup(),
        field_table(("label", "molecules that have it"), covered) if covered else Markup(),
        _elements(found),
        counted_histogram(found.sizes, "atoms per molecule", "molecules"),
    )


def _elements(found: Statistics) -> Markup:
    fit = found.reference_energies
    energies: Mapping[int, float] = {} if fit is None else fit.energies
    rows = [
        (
            symbol(z),
            f"{count.n_atoms:,}",
            f"{count.n_molecules:,}",
            number(count.force_rms),
            number(energies.get(z), 8),
        )
        for z, count in found.elements.items()
    ]
    if not rows:
        return Markup()
    head = (
        *("element", "atoms", "molecules"),
        with_usual_unit("force RMS", "forces"),
        with_usual_unit("reference energy", "energy"),
    )
    return table(head, rows, numeric=range(1, 5))
