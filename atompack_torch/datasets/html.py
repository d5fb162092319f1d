"""HTML of datasets and statistics for notebooks; no records are read for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from atompack_torch.batch.elements import symbol
from atompack_torch.display.charts import meter
from atompack_torch.display.fragments import (
    chips,
    field_table,
    fragment,
    size_histogram,
)
from atompack_torch.display.markup import Markup, number, percent, short, table, tag
from atompack_torch.fields import BUILTINS, FieldSpec, with_usual_unit

if TYPE_CHECKING:
    from atompack_torch.datasets.statistics import Statistics


def dataset_html(
    shown: str, n_items: int, item: str, schema: Mapping[str, FieldSpec], n_atoms: Tensor | None
) -> str:
    """Returns a table of the fields of a dataset, and the sizes of its molecules.

    Args:
        shown: the dataset in words.
        n_items: number of items.
        item: name of an item.
        schema: fields of a batch.
        n_atoms: (n_items,) atoms of each molecule, where they are known.

    Returns:
        The HTML.
    """
    rows = [
        (
            name,
            str(spec.dtype).removeprefix("torch."),
            "varies" if spec.shape is None else str(spec.shape),
            spec.level,
            BUILTINS[name].unit if name in BUILTINS else "",
        )
        for name, spec in schema.items()
    ]
    name, _, rest = shown.partition("(")
    facts = f"{number(n_items)} {item}s"
    if n_atoms is not None:
        facts += f", {int(n_atoms.sum()):,} atoms"
    sizes = Markup() if n_atoms is None else size_histogram(Counter(n_atoms.tolist()))
    place = tag("div", short(rest.removesuffix(")"), 200), class_="apt-soft")
    head = ("field", "dtype", "shape", "one row per", "usual unit")
    return fragment(name, facts, place, field_table(head, rows), sizes)


def statistics_html(found: Statistics) -> str:
    """Returns tables of spreads, elements and coverage, and the sizes of the molecules."""
    n = found.n_molecules
    rows = [
        (head.replace("_", " "), f"{s.count:,}", *map(number, (s.mean, s.std, s.min, s.max)))
        for _, head, s in found.spreads()
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
        size_histogram(found.sizes),
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
