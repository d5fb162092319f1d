"""The page of a report: its head, its sections and what they contain."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

import numpy as np

from atompack_torch.batch.elements import symbol
from atompack_torch.display.charts import Series, bins_of, histogram, integer_bins, meter
from atompack_torch.display.fragments import periodic_table
from atompack_torch.display.markup import (
    DASH,
    Markup,
    join,
    number,
    page_style,
    percent,
    short,
    table,
    tag,
)
from atompack_torch.errors import molecules
from atompack_torch.fields import BUILTINS, with_usual_unit
from atompack_torch.reports.findings import (
    LOG_EDGES,
    Array,
    Findings,
    Label,
    shared_geometries,
)
from atompack_torch.reports.groups import NO_VALUE, SpreadSums
from atompack_torch.reports.notes import energy_outliers, lonely_elements, notes_of

_ABSURD = 1e100  # larger values are not drawn
_TAIL = 0.002  # share of values beyond the drawn range, at either end


def of_integers(
    found: Sequence[Findings], values: Sequence[Mapping[int, int]], label: str, unit: str
) -> Markup:
    """Draws a histogram of counted integers.

    Args:
        found: the datasets.
        values: value → number of times, for each of them.
        label: name of the axis.
        unit: what is counted.

    Returns:
        The figure.
    """
    everything = [value for one in values for value in one]
    if not everything:
        return Markup()
    low, high = min(everything), max(everything)
    is_log = low > 0 and high / low > 200
    places = [np.array([*one], dtype=np.float64) for one in values]
    places = [np.log10(one) for one in places] if is_log else places
    edges = _log_bins(low, high) if is_log else integer_bins(low, high)
    counts = [
        np.histogram(place, edges, weights=[*one.values()])[0]
        for place, one in zip(places, values, strict=True)
    ]
    return histogram(edges, _series(found, counts), label=label, unit=unit, log_x=is_log)


def of_values(
    found: Sequence[Findings], values: Sequence[Array], label: str, unit: str
) -> tuple[Markup, int]:
    """Draws a histogram of numbers; a few far outliers are omitted.

    Args:
        found: the datasets.
        values: (n,) finite values of each of them.
        label: name of the axis.
        unit: what is counted.

    Returns:
        The figure, and the number of values outside it.
    """
    n = sum(map(len, values))
    values = [one[np.abs(one) < _ABSURD] for one in values]
    there = [one for one in values if len(one)]
    if not there:
        return Markup(), n
    low, high = _limits(there)
    edges = bins_of(low, high)
    binned = [np.histogram(one, edges)[0] for one in values]
    n_outside = n - int(sum(one.sum() for one in binned))
    return histogram(edges, _series(found, binned), label=label, unit=unit), n_outside


def of_logarithms(
    found: Sequence[Findings], counts: Sequence[Array], label: str, unit: str
) -> Markup:
    """Draws logarithmic histograms with the bins of ``LOG_EDGES``.

    Args:
        found: the datasets.
        counts: counts by bin of each of them.
        label: name of the axis.
        unit: what is counted.

    Returns:
        The figure.
    """
    used = np.flatnonzero(sum(counts))
    if not len(used):
        return Markup()
    first, last = int(used[0]), int(used[-1]) + 1
    if last - first < 6:
        first, last = max(first - 3, 0), min(last + 3, len(LOG_EDGES) - 1)
    series = _series(found, [one[first:last] for one in counts])
    edges = LOG_EDGES[first : last + 1].tolist()
    return histogram(edges, series, label=label, unit=unit, log_x=True)


def outliers(n: int) -> Markup:
    """Returns a line on the number of values outside a figure; empty if none are."""
    if n == 0:
        return Markup()
    verb = "outlier is" if n == 1 else "outliers are"
    return tag("p", f"{n:,} {verb} beyond the axis.", class_="apt-soft")


def _series(found: Sequence[Findings], counts: Sequence[Array]) -> list[Series]:
    named = zip(found, counts, strict=True)
    return [Series(one.name, own.astype(np.int64).tolist()) for one, own in named]


def _limits(values: Sequence[Array]) -> tuple[float, float]:
    """Returns the range to draw: all of it unless a few outliers stretch it."""
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    inner = [np.quantile(v, (_TAIL, 1 - _TAIL)) for v in values]
    first, last = min(q[0] for q in inner), max(q[1] for q in inner)
    margin = 0.35 * (last - first)
    if margin > 0:
        low, high = max(low, float(first - margin)), min(high, float(last + margin))
    return low, high


def _log_bins(low: int, high: int) -> list[float]:
    edges: list[float] = np.linspace(np.log10(low), np.log10(high) + 1e-9, 49).tolist()
    return edges


_MOST = 60


def labels(found: Sequence[Findings]) -> Markup:
    """Returns the section on labels, with one column of coverage per dataset."""
    names = list(dict.fromkeys(name for one in found for name in one.labels))
    if not names:
        return tag("p", "There are no labels, only positions and elements.")
    rows = []
    for name in names[:_MOST]:
        first = next(one.labels[name] for one in found if name in one.labels)
        covers = [_coverage(one, name) for one in found]
        rows.append((_name(name), *covers, _type(first), _unit(name)))
    head = ["label", *(_column(one, found) for one in found), "type of a row", "usual unit"]
    parts = [tag("h3", "Coverage"), table(head, rows)]
    for one in found:
        values = [_values(name, label) for name, label in one.labels.items() if label.spread.n]
        if values:
            columns = ["label", "min", "mean", "max", "RMS", "not finite"]
            shown = table(columns, values[:_MOST], numeric=range(1, 6))
            parts += [tag("h3", _titled("Values", one, found)), shown]
    if len(names) > _MOST:
        parts.append(tag("p", f"{len(names) - _MOST:,} more labels are not shown."))
    return join(parts)


def _column(one: Findings, found: Sequence[Findings]) -> str:
    return "molecules" if len(found) == 1 else one.name


def _coverage(one: Findings, name: str) -> Markup:
    n = one.labels[name].n_present if name in one.labels else 0
    return meter(n, one.n_structures, f"{percent(n, one.n_structures)} ({n:,})")


def _name(name: str) -> Markup:
    return tag("code", short(name, 32), title=short(name))


def _type(label: Label) -> str:
    shape = f" {label.shape}" if label.shape else ""
    return f"{label.dtype}{shape}, per {label.level}"


def _unit(name: str) -> str:
    unit = BUILTINS[name].unit if name in BUILTINS else ""
    return unit or DASH


def _values(name: str, label: Label) -> list[object]:
    wrong = molecules(label.n_non_finite) if label.n_non_finite else "0"
    sums = label.spread
    spread = (sums.low, sums.mean, sums.high, sums.rms)
    return [_name(name), *(number(value) for value in spread), wrong]


_OUTLIERS = 8


def energies(found: Sequence[Findings]) -> Markup:
    """Returns the section on energies per atom, before and after reference energies."""
    sampled = [one.energies() for one in found]
    if not any(len(numbers) for numbers, _, _ in sampled):
        return tag("p", "No molecule has an energy.")
    per_atom = with_usual_unit("energy per atom", "energy")
    raw, n_raw = of_values(found, [s[1] for s in sampled], per_atom, "molecules")
    left, n_left = of_values(
        found,
        [s[2] for s in sampled],
        with_usual_unit("energy per atom less reference energies", "energy"),
        "molecules",
    )
    titled = (
        tag("div", tag("h3", "As stored"), raw, outliers(n_raw)),
        tag("div", tag("h3", "Less reference energies"), left, outliers(n_left)),
    )
    parts = [tag("div", *titled, class_="pair")]
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
        parts += _fit(one, _titled("Reference energies", one, found))
    return join(parts)


def _fit(one: Findings, title: str) -> list[Markup]:
    fit = one.reference_energies
    if fit is None:
        return []
    sampled = f", shown for every {one.stride:,}th molecule" if one.stride > 1 else ""
    lines = [
        tag("h3", title),
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
        head = ("molecule", stored, "less reference energies")
        lines += [
            tag("p", "Molecules that they describe worst:"),
            table(head, rows, numeric=(0, 1, 2)),
        ]
    return lines


def forces(found: Sequence[Findings]) -> Markup:
    """Returns the section on force norms and the molecules with the largest ones."""
    if not any(one.n_force_vectors for one in found):
        return tag("p", "No molecule has forces.")
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
    worst = [one.worst_forces for one in found]
    unit = with_usual_unit("longest force", "forces")
    return join([*parts, _extremes(found, worst, "Longest forces", unit, 5)])


def _extremes(
    found: Sequence[Findings],
    extremes: Sequence[Sequence[tuple[float, int, str]]],
    title: str,
    unit: str,
    digits: int,
) -> Markup:
    """Returns tables of the molecules with extreme values: (value, number, formula)."""
    tables = []
    for one, listed in zip(found, extremes, strict=True):
        rows = [(f"{i:,}", formula, number(value, digits)) for value, i, formula in listed]
        if rows:
            shown = table(("molecule", "formula", unit), rows, numeric=(0, 2))
            tables.append(tag("div", tag("h3", _titled(title, one, found)), shown))
    return tag("div", *tables, class_="pair")


def _titled(title: str, one: Findings, found: Sequence[Findings]) -> str:
    """Returns a title that names the dataset, if there are two."""
    return title if len(found) == 1 else f"{title} of {one.name}"


_GROUPS, _IN_GROUP = 8, 8


def sizes(found: Sequence[Findings]) -> Markup:
    """Returns the section on the numbers of atoms."""
    figure = of_integers(found, [one.sizes for one in found], "atoms per molecule", "molecules")
    rows = []
    for one in found:
        if one.n_structures:
            median = _median(one.sizes)
            spread = (min(one.sizes), one.n_atoms / one.n_structures, median, max(one.sizes))
            rows.append((one.name, *(number(value) for value in spread)))
    head = ("atoms per molecule", "min", "mean", "median", "max")
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
            text = f"In fewer than ten molecules: {', '.join(lonely)}."
            lines.append(tag("p", text))
        lines.append(_isolated(one))
    return join(lines)


def _isolated(one: Findings) -> Markup:
    """Returns a table of isolated atoms, from which reference energies can be taken."""
    listed = one.groups.isolated
    if not listed:
        return Markup()
    n = one.groups.n_isolated
    shown = "" if n == len(listed) else f"{len(listed):,} of "
    rows = [
        (symbol(z), f"{i:,}", number(energy, 7))
        for i, z, energy in sorted(listed, key=lambda atom: atom[1])
    ]
    head = ("element", "molecule", with_usual_unit("energy", "energy"))
    title = tag("h3", f"Isolated atoms ({shown}{n:,})")
    return join([title, table(head, rows, numeric=(1, 2))])


_SHOWN_GROUPS = 50


def groups(found: Sequence[Findings]) -> Markup:
    """Returns the section on groups of molecules and errors of predictions."""
    parts = []
    for one in found:
        listed = sorted(one.groups.groups.items(), key=lambda pair: -pair[1].n_structures)
        predicted = list(dict.fromkeys(name for _, group in listed for name in group.errors))
        if [name for name, _ in listed] == [NO_VALUE] and not predicted:
            continue
        where = f" in {one.name}" if len(found) > 1 else ""
        shown = [(short(name, 24), group) for name, group in listed[:_SHOWN_GROUPS]]
        rows = [
            (
                name,
                f"{group.n_structures:,}",
                f"{group.n_atoms:,}",
                number(group.energy.mean),
                number(group.force.rms),
                number(group.force.largest),
                number(group.volume.mean),
            )
            for name, group in shown
        ]
        column = _name(one.groups.by)
        kinds = ("energy per atom", "RMS force", "longest force", "volume per atom")
        head = (column, "molecules", "atoms", *kinds)
        if where:
            parts.append(tag("h3", "Groups", where))
        parts.append(table(head, rows, numeric=range(1, 7)))
        text = "Energies and volumes are means, usually in eV and Å³, forces in eV/Å."
        if len(listed) > _SHOWN_GROUPS:
            text += f" {len(listed) - _SHOWN_GROUPS:,} more groups are not shown."
        parts.append(tag("p", text))
        for name in predicted:
            label = one.groups.predicted[name]
            unit = with_usual_unit(", per atom" if label == "energy" else "", label)
            parts.append(tag("h3", "Errors of ", _name(name), where, unit))
            errors = [(value, group.errors[name]) for value, group in shown if name in group.errors]
            parts.append(_error_table(column, errors))
            if of_elements := sorted(one.groups.element_errors.get(name, {}).items()):
                parts.append(_error_table("element", [(symbol(z), e) for z, e in of_elements]))
    return join(parts)


def _error_table(column: object, errors: Sequence[tuple[str, SpreadSums]]) -> Markup:
    rows = [
        (value, number(e.mae), number(e.rms), number(e.largest), f"{e.n:,}") for value, e in errors
    ]
    head = (column, "MAE", "RMSE", "largest", "values")
    return table(head, rows, numeric=range(1, 5))


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
        *("element", "atoms", "share", "molecules"),
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
    figure, n_outside = of_values(found, volumes, "cell volume per atom (usually Å³)", "molecules")
    parts.append(figure)
    parts.append(outliers(n_outside))
    rows = []
    for one in found:
        for flags, count in one.periodicity.most_common():
            axes = "".join(axis for axis, flag in zip("abc", flags, strict=True) if flag == "T")
            name = f"periodic along {', '.join(axes)}" if axes else "not periodic"
            rows.append((one.name, name, f"{count:,}", percent(count, one.n_structures)))
    head = ("dataset", "boundary conditions", "molecules", "share")
    parts.append(table(head, rows, numeric=(2, 3)) if rows else Markup())
    return join(parts)


def neighbors(found: Sequence[Findings]) -> Markup:
    """Returns the section on neighbors within the cutoff."""
    near = [one.neighborhoods for one in found]
    if not all(one.n_structures for one in near):
        return tag("p", "No neighbors were searched.")
    within = f"neighbors within {near[0].cutoff:g} (usually Å)"
    counts = of_integers(found, [one.counts for one in near], within, "atoms")
    distance = "distance to the nearest neighbor (usually Å)"
    nearest, n_outside = of_values(found, [one.nearest for one in near], distance, "atoms")
    both = tag(
        "div",
        tag("div", tag("h3", "Neighbor counts"), counts),
        tag("div", tag("h3", "Nearest neighbors"), nearest, outliers(n_outside)),
        class_="pair",
    )
    rows = []
    for one, part in zip(found, near, strict=True):
        mean = sum(k * n for k, n in part.counts.items()) / max(1, sum(part.counts.values()))
        spread = (min(part.counts, default=0), mean, max(part.counts, default=0))
        rows.append((one.name, f"{part.n_structures:,}", *(number(value) for value in spread)))
    head = ("neighbors per atom", "molecules searched", "min", "mean", "max")
    parts = [both, table(head, rows, numeric=range(1, 5))]
    closest = [[(-d, i, formula) for d, i, formula in one.closest] for one in near]
    unit = "shortest distance (usually Å)"
    return join([*parts, _extremes(found, closest, "Shortest distances", unit, 4)])


def duplicates(found: Sequence[Findings]) -> Markup:
    """Returns the section on molecules of equal geometry."""
    parts = [
        tag(
            "p",
            "Molecules count as equal if their elements, positions, cell and periodicity are "
            "equal bit for bit, atom by atom.",
        )
    ]
    for one in found:
        name = f"{one.name}: " if len(found) > 1 else ""
        about = "about " if one.duplicates.share > 1 else ""
        surplus = one.duplicates.n_surplus
        text = (
            f"{name}{about}{molecules(surplus)} ({percent(surplus, one.n_structures)}) with the "
            "geometry of an earlier one."
            if surplus
            else f"{name}no molecule repeats the geometry of another one."
        )
        parts.append(tag("p", text[0].upper() + text[1:] if not name else text))
        groups = one.duplicates.groups(_GROUPS)
        if groups:
            rows = [(f"{len(group):,}", _numbers(group)) for group in groups]
            parts.append(table(("copies", "molecules"), rows, numeric=(0,)))
    if len(found) == 2:
        n, share = shared_geometries(found[0].duplicates, found[1].duplicates)
        about = "about " if share > 1 else ""
        text = (
            f"{about}{molecules(n)} of {found[1].name} ({percent(n, found[1].n_structures)}) with "
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


def _median(counts: Mapping[int, int]) -> int:
    values = sorted(counts)
    done = list(accumulate(counts[value] for value in values))
    return values[bisect_left(done, done[-1] / 2)]


# Nothing outside the page is requested, whatever names are in the data.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page_of(found: Sequence[Findings]) -> str:
    """Builds the page.

    Args:
        found: findings of one or two datasets.

    Returns:
        A complete HTML document.
    """
    title = " and ".join(one.name for one in found)
    sections = [(name, make(found)) for name, make in _SECTIONS]
    sections = [(name, content) for name, content in sections if content]
    links = [tag("a", name, href=f"#{_anchor(name)}") for name, _ in sections]
    body = [
        tag("header", tag("h1", title), _subtitle(found), tag("nav", *links)),
        *(tag("section", tag("h2", name), content, id=_anchor(name)) for name, content in sections),
        tag("footer", tag("p", "Made by atompack_torch. Molecules are numbered from 0.")),
    ]
    head = [
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        tag("title", f"Report: {title}"),
        page_style(),
    ]
    main = tag("main", *body, class_="apt")
    return f'<!DOCTYPE html>\n<html lang="en"><head>{join(head)}</head><body>{main}</body></html>\n'


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _subtitle(found: Sequence[Findings]) -> Markup:
    kind = "Dataset of molecules" if len(found) == 1 else "Two datasets side by side"
    return tag("p", kind, class_="apt-soft")


def _overview(found: Sequence[Findings]) -> Markup:
    parts = []
    for one in found:
        facts = [
            (number(one.n_structures), "molecules"),
            (number(one.n_atoms), "atoms"),
            (_range(one), "atoms per molecule"),
            (number(len(one.elements)), "elements"),
            (_share(one, "energy"), "have energies"),
            (_share(one, "forces"), "have forces"),
        ]
        cards = [
            tag("div", tag("b", value), tag("span", what), class_="card") for value, what in facts
        ]
        head = tag("h3", one.name) if len(found) > 1 else Markup()
        notes = [
            tag("li", note.text, class_="warning" if note.is_warning else None)
            for note in notes_of(one)
        ]
        parts.append(
            tag("div", head, tag("div", *cards, class_="cards"), tag("ul", *notes, class_="notes"))
        )
    return tag("div", *parts, class_="pair") if len(found) > 1 else parts[0]


def _range(one: Findings) -> str:
    if not one.sizes:
        return DASH
    low, high = min(one.sizes), max(one.sizes)
    return f"{low:,}" if low == high else f"{low:,} {DASH} {high:,}"


def _share(one: Findings, name: str) -> str:
    label = one.labels.get(name)
    return percent(label.n_present if label else 0, one.n_structures)


_SECTIONS: tuple[tuple[str, Callable[[Sequence[Findings]], Markup]], ...] = (
    ("Overview", _overview),
    ("Sizes", sizes),
    ("Elements", elements),
    ("Labels", labels),
    ("Energies", energies),
    ("Forces", forces),
    ("Cells", cells),
    ("Groups", groups),
    ("Neighbors", neighbors),
    ("Duplicates", duplicates),
)
