"""The section on labels: coverage, types, values, units, values that are not finite."""

from __future__ import annotations

from collections.abc import Sequence

from atompack_torch.display.charts import meter
from atompack_torch.display.markup import (
    DASH,
    Markup,
    join,
    number,
    percent,
    short,
    structures,
    table,
    tag,
)
from atompack_torch.fields import BUILTINS
from atompack_torch.reports.findings import Findings, Label

_MOST = 60


def labels(found: Sequence[Findings]) -> Markup:
    """Returns the section on labels, with one column of coverage per data set."""
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
        title = "Values" if len(found) == 1 else f"Values of {one.name}"
        values = [_values(name, label) for name, label in one.labels.items() if label.count]
        if values:
            columns = ["label", "min", "mean", "max", "RMS", "not finite"]
            parts += [tag("h3", title), table(columns, values[:_MOST], numeric=range(1, 6))]
    if len(names) > _MOST:
        parts.append(tag("p", f"{len(names) - _MOST:,} more labels are not shown."))
    return join(parts)


def _column(one: Findings, found: Sequence[Findings]) -> str:
    return "structures" if len(found) == 1 else one.name


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
    wrong = structures(label.n_non_finite) if label.n_non_finite else "0"
    spread = (label.low, label.mean, label.high, label.rms)
    return [_name(name), *(number(value) for value in spread), wrong]
