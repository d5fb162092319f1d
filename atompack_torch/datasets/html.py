"""HTML of data sets for notebooks: their size and fields; no records are read for it."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from atompack_torch.display.fragments import field_table, fragment, size_histogram
from atompack_torch.display.markup import Markup, number, short, tag
from atompack_torch.fields import BUILTINS, FieldSpec


def dataset_html(
    shown: str, n_items: int, item: str, schema: Mapping[str, FieldSpec], n_atoms: Tensor | None
) -> str:
    """Returns a table of the fields of a data set, and the sizes of its molecules.

    Args:
        shown: the data set in words.
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
    sizes = Markup() if n_atoms is None else size_histogram(n_atoms.tolist())
    place = tag("div", short(rest.removesuffix(")"), 200), class_="apt-soft")
    head = ("field", "dtype", "shape", "one row per", "usual unit")
    return fragment(name, facts, place, field_table(head, rows), sizes)
