"""Descriptions of values: text that is the same wherever and whenever it is made.

A value becomes lines, one for each tensor, string or number in it, with a digest of the bytes; the
SHA-256 of all of them stands for the value. Errors become their type and message, less the folder.
"""

from __future__ import annotations

import hashlib
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import atompack_torch as apt

GOLDEN = Path(__file__).resolve().parent
FIXTURES = GOLDEN.parent / "fixtures"

_SHOWN_ELEMENTS = 3  # of a tensor, besides its digest
_SHOWN_CHARACTERS = 120
_MOST_LINES = 4  # of one item of a list or dict
_MOST_ITEMS = 12  # of a list, a line each
_COMMAND = re.compile(r"`[^`]*`")

Lines = list[str]
Leaf = tuple[str, str, bytes]  # place in the value, what can be shown, bytes
Found = dict[str, Lines]  # what was read -> its description


def described(value: Any) -> Lines:
    """A description, with the SHA-256 of the value in the first line."""
    leaves = [*_leaves("", value)]
    lines = [f"{place}: {text}{_digest(content)}" for place, text, content in leaves]
    return [f"sha256 {hashlib.sha256(_joined(leaves)).hexdigest()}", *lines]


def attempt(make: Callable[[], Any], *folders: Path) -> Lines:
    """The description of what a call returns, or of its error; warnings come first."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            lines = described(make())
        except Exception as error:
            lines = [error_text(error, *folders)]
    ours = [w for w in caught if "pytorch" not in str(w.message)]
    return [f"{w.category.__name__}: {cut(str(w.message), *folders)}" for w in ours] + lines


def error_text(error: BaseException, *folders: Path) -> str:
    """Type and message; of an error that torch's own code raises the type alone."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if frames and frames[-1].f_globals.get("__name__", "").startswith("torch."):
        return f"{type(error).__name__} of torch"
    return f"{type(error).__name__}: {cut(str(error), *folders)}"


def cut(text: str, *folders: Path) -> str:
    """The text without the folders of the fixtures and others, which differ from place to place."""
    for folder in folders:
        text = text.replace(str(folder), "FOLDER")
    return _COMMAND.sub(_unquoted, text.replace(str(FIXTURES), "FIXTURES"))


def _unquoted(command: re.Match[str]) -> str:
    """A command in a message; a shell wants quotes around the folders of some places only."""
    return re.sub(r"'((?:FIXTURES|FOLDER)[^']*)'", r"\1", command[0])


def _digest(content: bytes) -> str:
    return f" {hashlib.sha256(content).hexdigest()[:12]}" if content else ""


def _joined(leaves: Sequence[Leaf]) -> bytes:
    """The bytes of all leaves, each preceded by what it is and by its length."""
    parts: list[bytes] = []
    for place, text, content in leaves:
        head = f"{place}\0{text}\0{len(content)}\0"
        parts += (head.encode("utf-8", "surrogatepass"), content)
    return b"".join(parts)


def _folded(leaves: Sequence[Leaf], most: int) -> Sequence[Leaf]:
    """The leaves, or one that stands for all of them where there are many."""
    if len(leaves) <= most:
        return leaves
    place, text, _ = leaves[0]
    return [(place, f"{text}, {len(leaves)} values", _joined(leaves))]


def _leaves(place: str, value: Any) -> Iterator[Leaf]:
    """Every tensor, string and number in a value: its place, what can be shown, its bytes."""
    if isinstance(value, apt.MoleculeBatch):
        yield _of_names(place, "MoleculeBatch", value)
        for name in sorted(value.keys()):
            yield from _of_field(f"{place}{name} ({value.level(name)})", value, name)
    elif isinstance(value, apt.Molecule):
        yield _of_names(place, "Molecule", value)
        for name in sorted(value.keys()):
            yield from _leaves(f"{place}{name} ({value.level(name)})", _item(value, name))
    elif isinstance(value, torch.Tensor):
        yield _of_tensor(place, value)
    elif isinstance(value, np.ndarray):
        yield from _of_array(place, value)
    elif isinstance(value, np.generic):
        yield from _of_array(f"{place} {type(value).__name__}", np.asarray(value))
    elif isinstance(value, Mapping):
        yield place, f"{type(value).__name__} of {len(value)}", b""
        for key, item in value.items():
            inner = f"{place}[{_short(repr(key), 40)}]"
            yield from _folded([*_leaves(inner, item)], _MOST_LINES)
    elif hasattr(value, "_fields"):
        yield from _plain(place, value)  # a named tuple
    elif isinstance(value, (list, tuple)):
        yield place, f"{type(value).__name__} of {len(value)}", b""
        if all(item is None or isinstance(item, (str, bytes, bool, int)) for item in value):
            yield from _plain(f"{place}[:]", list(value))
        else:
            items: list[Leaf] = []
            for number, item in enumerate(value):
                items += _folded([*_leaves(f"{place}[{number}]", item)], _MOST_LINES)
            yield from _folded(items, _MOST_ITEMS)
    else:
        yield from _plain(place, value)


def _of_names(place: str, kind: str, value: apt.MoleculeBatch | apt.Molecule) -> Leaf:
    """The number of molecules or atoms; the names of all fields in their order."""
    names = [*value.keys()]
    return place, f"{kind} of {len(value)}, {len(names)} fields", "\n".join(names).encode()


def _of_field(place: str, batch: apt.MoleculeBatch, name: str) -> Iterator[Leaf]:
    """A field, its mask in the same line if it has one; all rows are there otherwise."""
    leaves, mask = [*_leaves(place, batch[name])], batch.mask(name)
    assert mask.dtype == torch.bool
    assert mask.shape == (len(batch),)
    place, text, content = leaves[-1]
    if not bool(mask.all()):
        rows = "".join("01"[row] for row in mask.tolist())
        shown = rows if len(rows) <= _SHOWN_CHARACTERS else f"{rows[:_SHOWN_CHARACTERS]}..."
        leaves[-1] = (place, f"{text}, mask {shown}", content + rows.encode())
    yield from leaves


def _item(molecule: apt.Molecule, name: str) -> Any:
    """A value of a molecule; the message, where it is damaged."""
    try:
        return molecule[name]
    except apt.AtompackError as error:
        return error_text(error)


def _short(text: str, most: int) -> str:
    """The text; of a long one, its beginning and a digest of all."""
    if len(text) <= most:
        return text
    return f"{text[:most]}...{_digest(text.encode('utf-8', 'surrogatepass'))}"


def _plain(place: str, value: Any) -> Iterator[Leaf]:
    text = value.hex() if isinstance(value, float) else cut(repr(value))
    kind = type(value).__name__
    yield place, f"{kind} {_short(text, _SHOWN_CHARACTERS)}", b""


def _of_tensor(place: str, tensor: torch.Tensor) -> Leaf:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    content = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    dtype = str(tensor.dtype).removeprefix("torch.")
    shown = f" {flat.tolist()}" if 0 < flat.numel() <= _SHOWN_ELEMENTS else ""
    return place, f"{dtype} {tuple(tensor.shape)}{shown}", content


def _of_array(place: str, array: np.ndarray[Any, Any]) -> Iterator[Leaf]:
    if array.dtype.hasobject:
        yield place, f"array {array.dtype} {array.shape}", b""
        yield from _leaves(place, array.tolist())
    else:
        content = np.ascontiguousarray(array).tobytes()
        yield place, f"array {array.dtype.str} {array.shape}", content


def text_of(found: Found) -> str:
    """Everything that was read of one case, as text."""
    lines = [line for name, those in found.items() for line in (name, *(f"  {t}" for t in those))]
    return "\n".join(lines) + "\n"


def digest_of(found: Found) -> str:
    """The SHA-256 of that text."""
    return hashlib.sha256(text_of(found).encode("utf-8", "surrogatepass")).hexdigest()
