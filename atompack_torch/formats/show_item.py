"""Formatting of one structure with all its labels, and their usual units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atompack_torch.batch.elements import symbol
from atompack_torch.errors import FieldError
from atompack_torch.fields import usual_unit, with_usual_unit
from atompack_torch.formats.atlas_shards.inspection import example_document, example_text
from atompack_torch.formats.entry import Shown
from atompack_torch.formats.molecules import formula, molecule_document
from atompack_torch.formats.text import first_of, printable, table

if TYPE_CHECKING:
    from torch import Tensor

    from atompack_torch.batch.molecule_batch import Molecule

_MOST_VALUES = 18  # of one field of a structure
_MAX_WIDTH = 3  # columns of a field in the table of atoms


def shown_item(dataset: Any, index: int, max_atoms: int) -> Shown:
    """Formats one item of a data set.

    Args:
        dataset: a data set of molecules or examples.
        index: number of the item, negative ones from the end.
        max_atoms: show at most this many atoms.

    Returns:
        The item.

    Raises:
        IndexError: there is no such item.
        FieldError: items are neither molecules nor examples.
    """
    from atompack_torch.batch.molecule_batch import Molecule
    from atompack_torch.formats.atlas_shards.dataset import ShardDataset

    item = dataset[index]
    number = index % len(dataset)
    if isinstance(item, Molecule):
        document = molecule_document(number, item)
        for name, field in document["fields"].items():
            field["usual_unit"] = usual_unit(name)
        return Shown(document, structure_text(number, item, max_atoms))
    if isinstance(dataset, ShardDataset):
        return Shown(example_document(number, item), example_text(number, item))
    raise FieldError(f"expected a data set of structures, got {type(dataset).__name__}")


def structure_text(number: int, molecule: Molecule, max_atoms: int) -> str:
    """Formats a structure: its labels with usual units, then a table of atoms.

    Args:
        number: number of the structure.
        molecule: the structure.
        max_atoms: show at most this many atoms.

    Returns:
        Several lines.
    """
    numbers = molecule["atomic_numbers"].tolist()
    n = len(numbers)
    lines = [f"structure {number}: {formula(numbers)}, {n:,} atoms"]
    columns = [["", *map(str, range(min(n, max_atoms)))], ["", *map(symbol, numbers[:max_atoms])]]
    rows: list[tuple[str, str, str]] = []
    for name in molecule.keys():
        value = molecule[name]
        if name == "atomic_numbers":
            continue
        if value is None or isinstance(value, str):
            rows.append((printable(name), "" if value is None else printable(repr(value)), ""))
        elif _is_column(value, n) and molecule.level(name) == "atom":
            columns += _columns_of(name, value[:max_atoms])
        else:
            unit = usual_unit(name)
            rows.append((printable(name), printable(_values_of(value)), unit and f"usually {unit}"))
    if rows:
        lines.append(table(rows, "  "))
    lines.append(table([*zip(*columns, strict=True)], "  "))
    if n > max_atoms:
        lines.append(f"  ... and {n - max_atoms:,} more atoms")
    return "\n".join(lines)


def _is_column(value: Tensor, n_atoms: int) -> bool:
    is_narrow = value.ndim == 1 or (value.ndim == 2 and value.shape[1] <= _MAX_WIDTH)
    return len(value) == n_atoms if value.ndim and is_narrow else False


def _columns_of(name: str, values: Tensor) -> list[list[str]]:
    """Returns the columns of a table of atoms, each with its heading."""
    head = with_usual_unit(printable(name), name)
    if values.ndim == 1:
        return [[head, *map(_number, values.tolist())]]
    columns = values.T.tolist()
    heads = [head, *[""] * (len(columns) - 1)]
    return [[text, *map(_number, column)] for text, column in zip(heads, columns, strict=True)]


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _values_of(value: Tensor) -> str:
    """Formats the values of a field, rows of matrices separated by semicolons."""
    if value.ndim == 0:
        return f"{value.item():.10g}" if value.is_floating_point() else str(value.item())
    if value.ndim == 2 and value.numel() <= _MOST_VALUES:
        return "; ".join(" ".join(map(_number, row)) for row in value.tolist())
    return f"{tuple(value.shape)} {first_of(value, _MOST_VALUES)}"
