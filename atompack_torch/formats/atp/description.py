"""Description of ``.atp`` files in readable form."""

from __future__ import annotations

from typing import Any

from atompack_torch.fields import usual_unit
from atompack_torch.formats.text import printable, table


def description_text(described: dict[str, Any]) -> str:
    """Formats a description.

    Args:
        described: the document of ``inspection.atp.describe``.

    Returns:
        Lines of text.
    """
    files, labels = described["files"], described["labels"]
    name = f"{len(files)} files" if len(files) > 1 else printable(files[0]["path"])
    lines = []
    if len(files) > 1 or "error" not in files[0]:
        counts = f"{described['n_molecules']:,} molecules, {described['n_atoms']:,} atoms"
        lines.append(f"{name}: {counts}")
    if described["schema"]:
        lines.append(labels_text(described["schema"], labels))
    lines += _nan_lines(labels)
    if len(files) > 1:
        lines.append(f"  {_space_text(described)}")
    lines += [_file_text(file, with_counts=len(files) > 1) for file in files]
    return "\n".join(lines)


def labels_text(schema: dict[str, Any], labels: dict[str, Any] | None) -> str:
    """Formats a table of the fields: usual units, and numbers of molecules that have each."""
    rows = [("field", "level", "dtype", "shape of a row", "usual unit", "molecules that have it")]
    for name, spec in schema.items():
        shape = "differs" if spec["shape"] is None else str(spec["shape"])
        count = _count_text(name, labels)
        rows.append((printable(name), spec["level"], spec["dtype"], shape, usual_unit(name), count))
    found = () if labels is None else labels["molecules"]
    for name in (name for name in found if name not in schema):  # only in records
        rows.append((printable(name), "", "", "", usual_unit(name), _count_text(name, labels)))
    return table(rows, "  ")


def _count_text(name: str, labels: dict[str, Any] | None) -> str:
    """Formats the count of one field; positions and atomic numbers are in every molecule."""
    if labels is None:
        return "not counted"
    n = labels["n_looked_at"]
    count = labels["molecules"].get(name, n)
    if n == 0:
        return "none"
    if labels["exact"]:
        return "all" if count == n else f"{count:,} of {n:,}"
    return f"about {count / n:.1%} ({count:,} of {n:,} sampled)"


def _nan_lines(labels: dict[str, Any] | None) -> list[str]:
    """Formats a note for each label that is NaN in some molecules."""
    if labels is None:
        return []
    of = f"{labels['n_looked_at']:,} {'molecules' if labels['exact'] else 'sampled'}"
    return [
        f"  {printable(name)}: NaN throughout in {n:,} of {of}: "
        "AtpDataset(nan_is_missing=True) takes these as absent"
        for name, n in labels["nan"].items()
    ]


def _file_text(file: dict[str, Any], with_counts: bool) -> str:
    path = printable(file["path"])
    slots = "; ".join(f"slot {name}: {_slot_text(slot)}" for name, slot in file["slots"].items())
    if "error" in file:
        return f"{path}: cannot be read\n  {slots}"
    level = f" (level {file['level']})" if file["codec"] == "zstd" else ""
    counts = f"{path}: {file['n_molecules']:,} molecules, {file['n_atoms']:,} atoms\n"
    return (
        f"{counts if with_counts else ''}"
        f"  codec {file['codec']}{level}, record format {file['record_format']}, "
        f"generation {file['generation']}\n"
        f"  {slots}\n"
        f"  {_space_text(file)}"
    )


def _slot_text(slot: dict[str, Any]) -> str:
    if slot["problem"] is not None:
        return f"damaged: {printable(slot['problem'])}"
    in_use = ", in use" if slot.get("in_use") else ""
    return f"generation {slot['generation']}, {slot['n_molecules']:,} molecules{in_use}"


def _space_text(space: dict[str, Any]) -> str:
    dead = "not known (records lie over one another)"
    if space["dead_bytes"] is not None:
        share = space["dead_bytes"] / space["file_bytes"] if space["file_bytes"] else 0.0
        dead = f"{space['dead_bytes']:,} ({share:.1%})"
    return (
        f"{space['file_bytes']:,} bytes: records {space['record_bytes']:,} "
        f"(uncompressed {space['uncompressed_bytes']:,}), schema {space['schema_bytes']:,}, "
        f"index {space['index_bytes']:,}, dead {dead}, tail {space['tail_bytes']:,}"
    )
