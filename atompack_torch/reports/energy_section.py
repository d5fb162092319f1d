"""The sections on energies and forces."""

from __future__ import annotations

from collections.abc import Sequence

from atompack_torch.display.markup import Markup, join, number, table, tag
from atompack_torch.fields import with_usual_unit
from atompack_torch.reports.figures import of_logarithms, of_values, outliers
from atompack_torch.reports.findings import Findings
from atompack_torch.reports.notes import energy_outliers

_OUTLIERS = 8


def energies(found: Sequence[Findings]) -> Markup:
    """Returns the section on energies per atom, before and after reference energies."""
    sampled = [one.energies() for one in found]
    if not any(len(numbers) for numbers, _, _ in sampled):
        return tag("p", "No structure has an energy.")
    per_atom = with_usual_unit("energy per atom", "energy")
    raw, n_raw = of_values(found, [s[1] for s in sampled], per_atom, "structures")
    left, n_left = of_values(
        found,
        [s[2] for s in sampled],
        with_usual_unit("energy per atom less reference energies", "energy"),
        "structures",
    )
    parts = [
        tag(
            "div",
            tag("div", tag("h3", "As stored"), raw, outliers(n_raw)),
            tag("div", tag("h3", "Less reference energies"), left, outliers(n_left)),
            class_="pair",
        )
    ]
    rows = []
    for one, (_, before, after) in zip(found, sampled, strict=True):
        for name, values in (("as stored", before), ("less reference energies", after)):
            if len(values):
                spread = (values.min(), values.mean(), values.max(), values.std())
                cells = (name, *(number(float(value)) for value in spread))
                rows.append(cells if len(found) == 1 else (one.name, *cells))
    head = [per_atom, "min", "mean", "max", "std"]
    first = [] if len(found) == 1 else [""]
    n = len(first)
    parts.append(table([*first, *head], rows, numeric=range(1 + n, 5 + n)))
    for one in found:
        parts += _fit(one, len(found) > 1)
    return join(parts)


def _fit(one: Findings, is_named: bool) -> list[Markup]:
    fit = one.reference_energies
    if fit is None:
        return []
    sampled = f", shown for every {one.stride:,}th structure" if one.stride > 1 else ""
    lines = [
        tag("h3", f"Reference energies of {one.name}" if is_named else "Reference energies"),
        tag(
            "p",
            f"One energy per element, fitted to {fit.n_molecules:,} total energies by least "
            f"squares{sampled}. What is left has an RMS of {number(fit.residual_rms_per_atom)} "
            "per atom, usually in eV. The energies of the elements are in the table of elements.",
        ),
    ]
    outliers = energy_outliers(one, _OUTLIERS)
    if outliers and fit.residual_rms_per_atom > 1e-12:
        rows = [(f"{i:,}", number(raw, 6), number(left)) for i, raw, left in outliers]
        stored = with_usual_unit("as stored, per atom", "energy")
        head = ("structure", stored, "less reference energies")
        lines += [
            tag("p", "Structures that they describe worst:"),
            table(head, rows, numeric=(0, 1, 2)),
        ]
    return lines


def forces(found: Sequence[Findings]) -> Markup:
    """Returns the section on force norms and the structures with the largest ones."""
    if not any(one.n_force_vectors for one in found):
        return tag("p", "No structure has forces.")
    length = with_usual_unit("length of a force", "forces")
    figure = of_logarithms(found, [one.force_norms for one in found], length, "atoms")
    parts = [figure]
    zero = [
        f"{one.n_zero_forces:,} of {one.n_force_vectors:,} forces"
        + (f" of {one.name}" if len(found) > 1 else "")
        + " are exactly zero."
        for one in found
        if one.n_zero_forces
    ]
    parts += [tag("p", line) for line in zero]
    tables = []
    for one in found:
        rows = [(f"{i:,}", formula, number(value, 5)) for value, i, formula in one.worst_forces]
        if rows:
            title = f"Longest forces of {one.name}" if len(found) > 1 else "Longest forces"
            head = ("structure", "formula", with_usual_unit("longest force", "forces"))
            tables.append(tag("div", tag("h3", title), table(head, rows, numeric=(0, 2))))
    parts.append(tag("div", *tables, class_="pair"))
    return join(parts)
