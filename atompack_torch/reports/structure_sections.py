"""The sections on sizes, elements, cells, neighbors and duplicates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from atompack_torch.batch.elements import symbol
from atompack_torch.display.elements import periodic_table
from atompack_torch.display.markup import Markup, join, number, percent, structures, table, tag
from atompack_torch.fields import with_usual_unit
from atompack_torch.reports.figures import of_integers, of_values, outliers
from atompack_torch.reports.findings import Findings, Neighborhoods, shared_geometries
from atompack_torch.reports.notes import lonely_elements

_GROUPS, _IN_GROUP = 8, 8


def sizes(found: Sequence[Findings]) -> Markup:
    """Returns the section on the numbers of atoms."""
    figure = of_integers(found, [one.sizes for one in found], "atoms per structure", "structures")
    rows = []
    for one in found:
        if one.n_structures:
            median = _median(one.sizes)
            spread = (min(one.sizes), one.n_atoms / one.n_structures, median, max(one.sizes))
            rows.append((one.name, *(number(value) for value in spread)))
    head = ("atoms per structure", "min", "mean", "median", "max")
    return join([figure, table(head, rows, numeric=range(1, 5)) if rows else ""])


def elements(found: Sequence[Findings]) -> Markup:
    """Returns the section on elements."""
    parts = []
    for one in found:
        counts = {z: count.n_atoms for z, count in one.elements.items()}
        title = tag("h3", one.name) if len(found) > 1 else Markup()
        parts.append(tag("div", title, periodic_table(counts, symbol)))
    lines = [tag("div", *parts, class_="pair")]
    for one in found:
        if len(found) > 1:
            lines.append(tag("h3", f"Elements of {one.name}"))
        lines.append(_element_table(one))
        if lonely := lonely_elements(one):
            text = f"In fewer than ten structures: {', '.join(lonely)}."
            lines.append(tag("p", text))
    return join(lines)


def _element_table(one: Findings) -> Markup:
    fit = {} if one.reference_energies is None else one.reference_energies.energies
    rows = [
        (
            tag("span", tag("b", symbol(z)), class_="apt-chip"),
            f"{count.n_atoms:,}",
            percent(count.n_atoms, one.n_atoms),
            f"{count.n_molecules:,}",
            number(fit.get(z), 7),
            number(count.force_rms),
        )
        for z, count in one.elements.items()
    ]
    head = (
        *("element", "atoms", "share", "structures"),
        with_usual_unit("reference energy", "energy"),
        with_usual_unit("RMS of force components", "forces"),
    )
    return table(head, rows, numeric=range(1, 6))


def cells(found: Sequence[Findings]) -> Markup:
    """Returns the section on cells and their volumes."""
    parts = []
    volumes = []
    for one in found:
        volume = one.sample["volume"] if one.sample else np.zeros(0)
        volumes.append(volume[np.isfinite(volume)])
    figure, n_outside = of_values(found, volumes, "cell volume per atom (usually Å³)", "structures")
    parts.append(figure)
    parts.append(outliers(n_outside))
    rows = []
    for one in found:
        for flags, count in one.periodicity.items():
            axes = "".join(axis for axis, flag in zip("abc", flags, strict=True) if flag == "T")
            name = f"periodic along {', '.join(axes)}" if axes else "not periodic"
            rows.append((one.name, name, f"{count:,}", percent(count, one.n_structures)))
    head = ("data set", "boundary conditions", "structures", "share")
    parts.append(table(head, rows, numeric=(2, 3)) if rows else Markup())
    return join(parts)


def neighbors(found: Sequence[Findings]) -> Markup:
    """Returns the section on neighbors within the cutoff."""
    near = [one.neighborhoods for one in found]
    there: list[Neighborhoods] = [one for one in near if one is not None and one.n_structures]
    if len(there) < len(found):
        return tag("p", "No neighbors were searched.")
    cutoff = there[0].cutoff
    counts = of_integers(
        found, [one.counts for one in there], f"neighbors within {cutoff:g} (usually Å)", "atoms"
    )
    distance = "distance to the nearest neighbor (usually Å)"
    nearest, n_outside = of_values(found, [one.nearest for one in there], distance, "atoms")
    both = tag(
        "div",
        tag("div", tag("h3", "Neighbor counts"), counts),
        tag("div", tag("h3", "Nearest neighbors"), nearest, outliers(n_outside)),
        class_="pair",
    )
    rows = []
    for one, part in zip(found, there, strict=True):
        mean = sum(k * n for k, n in part.counts.items()) / max(1, sum(part.counts.values()))
        spread = (min(part.counts, default=0), mean, max(part.counts, default=0))
        rows.append((one.name, f"{part.n_structures:,}", *(number(value) for value in spread)))
    head = ("neighbors per atom", "structures searched", "min", "mean", "max")
    parts = [both, table(head, rows, numeric=range(1, 5))]
    closest = []
    for one, part in zip(found, there, strict=True):
        title = f"Shortest distances of {one.name}" if len(found) > 1 else "Shortest distances"
        lines = [(f"{i:,}", formula, number(-d)) for d, i, formula in part.closest]
        if lines:
            columns = ("structure", "formula", "shortest distance (usually Å)")
            closest.append(tag("div", tag("h3", title), table(columns, lines, numeric=(0, 2))))
    return join([*parts, tag("div", *closest, class_="pair")])


def duplicates(found: Sequence[Findings]) -> Markup:
    """Returns the section on structures of equal geometry."""
    parts = [
        tag(
            "p",
            "Structures count as equal if their elements, positions, cell and periodicity are "
            "equal bit for bit, atom by atom.",
        )
    ]
    for one in found:
        name = f"{one.name}: " if len(found) > 1 else ""
        about = "about " if one.duplicates.share > 1 else ""
        surplus = one.duplicates.n_surplus
        text = (
            f"{name}{about}{structures(surplus)} ({percent(surplus, one.n_structures)}) with the "
            "geometry of an earlier one."
            if surplus
            else f"{name}no structure repeats the geometry of another one."
        )
        parts.append(tag("p", text[0].upper() + text[1:] if not name else text))
        groups = one.duplicates.groups(_GROUPS)
        if groups:
            rows = [(f"{len(group):,}", _numbers(group)) for group in groups]
            parts.append(table(("copies", "structures"), rows, numeric=(0,)))
    if len(found) == 2:
        n, share = shared_geometries(found[0].duplicates, found[1].duplicates)
        about = "about " if share > 1 else ""
        text = (
            f"{about}{structures(n)} of {found[1].name} ({percent(n, found[1].n_structures)}) with "
            f"a geometry that is in {found[0].name} too."
        )
        parts.append(
            tag(
                "ul",
                tag("li", text[0].upper() + text[1:], class_="warning" if n else None),
                class_="notes",
            )
        )
    return join(parts)


def _numbers(group: Sequence[int]) -> str:
    text = ", ".join(f"{i:,}" for i in group[:_IN_GROUP])
    return text + (", …" if len(group) > _IN_GROUP else "")


def _median(counts: Mapping[int, int]) -> int | None:
    half, done = sum(counts.values()) / 2, 0
    for value, count in sorted(counts.items()):
        done += count
        if done >= half:
            return value
    return None
