"""Checks of options and paths: one wording for each kind of mistake; abbreviation of lists."""

from __future__ import annotations

import inspect
import math
import operator
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Concatenate, Literal, ParamSpec, TypeVar

from atompack_torch.errors import FieldError, UnsupportedFormatError, printable

CODECS = ("none", "lz4", "zstd")
DEFAULT_LEVEL = 3
MAX_METADATA_BYTES = 256 << 20
_LONGEST_NAME = 60
# Of one library or of several in a row: s3://bucket/key, simplecache::s3://bucket/key.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]+://")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
SCHEMES = ("s3", "gs", "az", "https", "http", "hf")

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Object = TypeVar("_Object")
_Fields = ParamSpec("_Fields")
PathLike = str | os.PathLike[str]
Buffer = bytes | bytearray | memoryview
BUFFERS = (bytes, bytearray, memoryview)
MEMORY = "<memory>"  # the path of files in buffers, and the beginning of their names


def check_choice(
    option: str, value: object, choices: Sequence[object], *, optional: bool = False
) -> None:
    """Raises unless an option has one of its values.

    Args:
        option: name of the option.
        value: value given by the caller.
        choices: values that the option can have.
        optional: accept None too.

    Raises:
        ValueError: it is none of them.
    """
    if value in choices or (optional and value is None):
        return
    known = ", ".join(map(str, choices)) + (" or None" if optional else "")
    raise ValueError(f"{option}: expected one of {known}, got {value!r}")


def checked_integer(option: str, value: object, minimum: int | None = None) -> int:
    """Returns an option that is an integer, of Python or NumPy.

    Args:
        option: name of the option.
        value: value given by the caller.
        minimum: the smallest valid value; None: any integer is valid.

    Returns:
        The value.

    Raises:
        TypeError: it is not an integer; booleans do not count as integers.
        ValueError: it is less than the minimum.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{option}: expected an int, got {value!r}")
    number = operator.index(value)
    if minimum is not None and number < minimum:
        raise ValueError(f"{option}: expected at least {minimum}, got {number}")
    return number


def checked_number(option: str, value: Any, minimum: float = 0.0, below: float = math.inf) -> float:
    """Returns an option that is a real number.

    Args:
        option: name of the option.
        value: value given by the caller.
        minimum: the smallest valid value.
        below: the smallest number above that is not valid.

    Returns:
        The value.

    Raises:
        TypeError: it is not a number; booleans do not count as numbers.
        ValueError: it is out of range, or NaN.
    """
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"{option}: expected a number, got {value!r}")
    if not minimum <= value < below:
        limit = "" if below == math.inf else f" and less than {below:.3g}"
        raise ValueError(
            f"{option}: expected a finite number, at least {minimum}{limit}, got {value}"
        )
    return float(value)


def check_type(option: str, value: object, kind: type, hint: str = "") -> None:
    """Raises unless an option is None or an object of a class.

    Args:
        option: name of the option.
        value: value given by the caller.
        kind: the class.
        hint: end of the message.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, kind | None):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        got = type(value).__name__
        raise TypeError(f"{option}: expected {article} {kind.__name__}, got {got}{hint}")


def check_flags(**flags: object) -> None:
    """Raises unless options are true or false: words such as ``"no"`` would count as true.

    Args:
        **flags: values given by the caller.

    Raises:
        TypeError: an option is neither.
    """
    for option, value in flags.items():
        if value not in (True, False):
            raise TypeError(f"{option}: expected True or False, got {value!r}")


def epoch_number(epoch: object) -> int:
    """Returns the number of an epoch.

    Args:
        epoch: value given by the caller.

    Returns:
        The number.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is negative, or has more than 63 bits.
    """
    number = checked_integer("epoch", epoch, 0)
    if number >= 1 << 63:  # workers read it in shared memory
        raise ValueError(f"epoch: expected below 2**63, got {number}")
    return number


def check_threads(num_threads: int | None) -> None:
    """Raises unless a number of threads is None or at least 1.

    Args:
        num_threads: value given by the caller; None: chosen automatically.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is less than 1, or has more than 31 bits.
    """
    if num_threads is None:
        return
    if checked_integer("num_threads", num_threads) < 1:
        raise ValueError(f"num_threads: expected a positive number or None, got {num_threads}")
    if num_threads >= 1 << 31:
        raise ValueError(f"num_threads: expected below 2**31, got {num_threads}")


def checked_part(part: object) -> tuple[int, int]:
    """Returns a part of the work: its number, from 0, and the number of parts.

    Args:
        part: value given by the caller.

    Returns:
        The two numbers.

    Raises:
        TypeError: it is not a pair of integers.
        ValueError: there is no such part.
    """
    if not isinstance(part, (tuple, list)) or len(part) != 2:
        raise TypeError(f"part: expected (number, number of parts), got {part!r}")
    number, count = checked_integer("part", part[0]), checked_integer("part", part[1], 1)
    if not 0 <= number < count:
        raise ValueError(f"part: expected a number from 0 to {count - 1}, got {number}")
    return number, count


def part_range(part: tuple[int, int], n_items: int) -> range:
    """Returns the range of the items that belong to a part; parts differ by at most one item."""
    number, count = part
    return range(n_items * number // count, n_items * (number + 1) // count)


def threads_or_cores(num_threads: int | None) -> int:
    """Returns a number of threads; for None the number of cores that this process may use."""
    return num_threads or len(os.sched_getaffinity(0))


def check_level(codec: str | None, level: int) -> None:
    """Raises unless the codec supports the level; the libraries would silently clamp it.

    Args:
        codec: one of ``CODECS``; None (a file's own codec) takes levels of zstd.
        level: level given by the caller.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is out of range, or neither 0 nor the default for ``"none"``.
    """
    from atompack_torch._native import LZ4_LEVELS, ZSTD_LEVELS

    low, high = LZ4_LEVELS if codec == "lz4" else ZSTD_LEVELS
    if not low <= checked_integer("level", level) <= high:
        known = f" for codec {codec}" if codec in ("lz4", "zstd") else ""
        raise ValueError(f"level: expected {low} to {high}{known}, got {level}")
    if codec == "none" and level not in (0, DEFAULT_LEVEL):
        raise ValueError(f"level: expected a codec, lz4 or zstd, for level {level}, got none")


@dataclass(frozen=True, kw_only=True)
class WriterOptions:
    """Options that all writers have in common, checked when they are made.

    Attributes:
        mode: what becomes of a file that exists already: one of ``modes``.
        codec: one of ``codecs``; None: the writer's default.
        level: compression level, in the range of the codec.
        num_threads: maximum number of compression threads; None: chosen automatically.

    Raises:
        TypeError: the level or the number of threads is not an integer.
        ValueError: an option does not have one of its values.
    """

    modes: ClassVar[Sequence[str]] = ("x", "w", "a")
    codecs: ClassVar[Sequence[str]] = CODECS

    mode: str
    codec: str | None
    level: int
    num_threads: int | None

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, self.modes)
        check_choice("codec", self.codec, self.codecs, optional=True)
        check_level(self.codec, self.level)
        check_threads(self.num_threads)

    @property
    def n_threads(self) -> int:
        """The number of threads as native writers take it: 0 stands for None."""
        return self.num_threads or 0


def _change(text: str, *choices: str, default: bool | None = None) -> Any:
    """Field of ``ChangeOptions``: its help text, and its choices where it has some."""
    return field(default=default, metadata={"help": text, "choices": choices})


@dataclass(frozen=True)
class ChangeOptions:
    """Options of a conversion that change values; ``conversion.Changes`` documents them.

    The command line and ``convert`` have the options that are fields here, with these texts.

    Raises:
        ValueError: an option does not have one of its choices.
    """

    stress_sign: Literal["flip"] | None = _change("change the sign of stress", "flip")
    energy_unit: str | None = _change("unit of energies in the source, converted to eV")
    length_unit: str | None = _change("unit of positions and cells, converted to Å")
    force_unit: str | None = _change("unit of forces, converted to eV/Å")
    stress_unit: str | None = _change("unit of stresses, converted to eV/Å³")
    dtype: Literal["float32", "float64"] | None = _change(
        "float32 or float64 for positions, forces, velocities",
        *("float32", "float64"),
    )
    force_sign: Literal["flip"] | None = _change(
        "change the sign of forces: they are gradients", "flip"
    )
    stress_from: Literal["virial"] | None = _change(
        "make stress from a virial: -virial / volume",
        "virial",
    )
    stress_order: Literal["voigt", "vasp"] | None = _change(
        "of six numbers: voigt, or vasp (xx yy zz xy yz zx)",
        *("voigt", "vasp"),
    )
    keep_units: bool = _change(
        "keep units of the source (default: to eV and Å)",
        default=False,
    )

    def __post_init__(self) -> None:
        for option in fields(self):
            if option.metadata["choices"]:
                value = getattr(self, option.name)
                check_choice(option.name, value, option.metadata["choices"], optional=True)


def with_options(*kinds: Any, skip: Collection[str] = ()) -> Callable[[_Function], _Function]:
    """Makes a decorator that shows the options of something else where ``**options`` is.

    Args:
        *kinds: dataclasses, whose fields have their texts in ``metadata`` or in the docstring, or
            functions with keyword-only parameters.
        skip: names of options that are not shown.

    Returns:
        The decorator; it changes what ``help`` shows, not what the function does.
    """

    def decorated(function: _Function) -> _Function:
        signature = inspect.signature(function)
        *parameters, _ = signature.parameters.values()
        known = {parameter.name for parameter in parameters}.union(skip)
        own = [
            one
            for kind in kinds
            for one in inspect.signature(kind).parameters.values()
            if one.name not in known
            and (isinstance(kind, type) or one.kind is inspect.Parameter.KEYWORD_ONLY)
        ]
        own.sort(key=lambda one: _depth(kinds[0], one.name))
        given = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
        shown = signature.replace(parameters=[*parameters, *given])
        texts = {name: text for kind in kinds for name, text in _texts_of(kind).items()}
        lines = (function.__doc__ or "").split("\n")  # None with python -OO
        at = [i for i, line in enumerate(lines) if line.lstrip().startswith("**options:")]
        for i in at:
            margin = lines[i][: -len(lines[i].lstrip())]
            entries = [texts[one.name] for one in own if one.name in texts]
            lines[i : i + 1] = [margin + line for entry in entries for line in entry.split("\n")]
        function.__doc__ = "\n".join(lines)
        setattr(function, "__signature__", shown)  # noqa: B010  (mypy knows no such attribute)
        return function

    return decorated


def with_fields(
    kind: Callable[_Fields, object],
) -> Callable[
    [Callable[Concatenate[_Object, ...], None]], Callable[Concatenate[_Object, _Fields], None]
]:
    """Makes a decorator of an ``__init__`` that has the fields of a dataclass as parameters.

    Args:
        kind: the dataclass.

    Returns:
        The decorator, which does what that of ``with_options`` does, and which type checkers
        understand: to them the fields of the dataclass are the parameters.
    """
    return with_options(kind)


def _depth(kind: Any, name: str) -> int:
    """Returns how far from a dataclass the base is that has a field; 0 for functions."""
    bases = kind.__mro__ if isinstance(kind, type) else ()
    return next((i for i, base in enumerate(bases) if name in inspect.get_annotations(base)), 0)


def _texts_of(kind: Any) -> dict[str, str]:
    """Returns the entry of each option in the documentation of a dataclass or function."""
    texts = {
        one.name: f"{one.name}: {one.metadata['help']}."
        for one in (fields(kind) if isinstance(kind, type) else ())
        if "help" in one.metadata
    }
    for base in reversed(kind.__mro__) if isinstance(kind, type) else [kind]:
        entries = re.split("(?:Attributes|Args):\n", inspect.cleandoc(base.__doc__ or ""))[-1]
        for entry in re.split(r"\n {4}(?=\w)", "\n" + entries.partition("\n\n")[0])[1:]:
            texts[entry.partition(":")[0]] = entry.replace("\n    ", "\n")
    return texts


def utf8(what: str, text: object) -> str:
    """Returns a string, checked to be valid in UTF-8: without lone surrogates.

    Args:
        what: name of the argument, for the message.
        text: the string.

    Returns:
        The string.

    Raises:
        TypeError: it is not a string.
        FieldError: it holds characters that UTF-8 cannot encode.
    """
    if not isinstance(text, str):
        raise TypeError(f"{what}: expected a string, got {type(text).__name__}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise FieldError(
                f"{what}: expected text that can be encoded in UTF-8, got {text!r}"
            ) from None
    return text


def is_listing(value: object) -> bool:
    """True for lists and the like; False for data frames, which iterate over names of columns."""
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) == 1


def open_hint(value: object) -> str:
    """Returns the way out where a dataset is expected, if the value is a path; else nothing."""
    if not isinstance(value, (str, os.PathLike)):
        return ""
    return f": open it first: apt.open({os.fspath(value)!r})"


def short_list(names: Iterable[object], n: int, most: int = 10) -> str:
    """Formats the first names of a list and the number of others; for ``repr``.

    Args:
        names: at least the first ``most`` of them.
        n: total number of names.
        most: maximum number to show.

    Returns:
        Names separated by commas.
    """
    shown = [printable(str(name)) for name in islice(names, most)]
    shown = [x if len(x) <= _LONGEST_NAME else f"{x[: _LONGEST_NAME - 3]}..." for x in shown]
    return ", ".join(shown) + (f", ... ({n:,} in all)" if n > len(shown) else "")


def is_url(path: object) -> bool:
    """True for a string with a scheme, such as ``"s3://bucket/data.atp"``."""
    return isinstance(path, str) and _URL.match(path) is not None


def first_scheme(url: str) -> str:
    """Returns the scheme of a URL in lower case; an empty string if several stand in a row."""
    found = _SCHEME.match(url)
    return found[1].lower() if found else ""


def shown_url(url: str) -> str:
    """Returns a URL without user info, query and fragment, for messages and names of files."""
    is_chain = "::" in url and is_url(url) and first_scheme(url) not in SCHEMES
    return "::".join(map(_shown_link, url.split("::") if is_chain else [url]))


def _shown_link(url: str) -> str:
    found = _SCHEME.match(url)
    start = found.end() if found else 0
    host, slash, path = url[start:].partition("/")
    if not found or found[1].lower() not in ("s3", "gs"):  # their keys may contain ? and #
        host = re.split(r"[?#]", host)[0]
        path = re.split(r"[?#]", path)[0]
    return url[:start] + host.rpartition("@")[2] + slash + path


def redact_path(path: object) -> str:
    """Returns a path for messages, a URL as ``shown_url`` does; of several paths the first."""
    if isinstance(path, (list, tuple)) and path:
        more = f" and {len(path) - 1} more" if len(path) > 1 else ""
        return f"{redact_path(path[0])}{more}"
    return shown_url(path) if isinstance(path, str) and is_url(path) else str(path)


def is_in_memory(path: object) -> bool:
    """True for the name of a file in a buffer; local files are opened by absolute paths."""
    return isinstance(path, str) and path.startswith(MEMORY)


def checked_path(path: object) -> str:
    """Returns the path of a local file as a string.

    Args:
        path: value given by the caller.

    Returns:
        The path, relative or absolute as it was given.

    Raises:
        TypeError: it is neither a string nor a path.
        ValueError: it is not a valid file name: it holds a NUL character or a lone surrogate.
        UnsupportedFormatError: it is a URL.
    """
    name = os.fspath(path)  # type: ignore[call-overload]  # checks the type itself
    if not isinstance(name, str):
        raise TypeError(f"path: expected str or os.PathLike[str], got {type(name).__name__}")
    if "\0" in name:
        raise ValueError(f"path: expected a name without NUL characters, got {name!r}")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise ValueError(
            f"path: expected characters that a file name can hold, got {name!r}"
        ) from None
    if is_url(path):  # whose text may hold a password
        scheme = name.partition("://")[0]
        raise UnsupportedFormatError(
            f"path: expected a local path, got a URL ({scheme}://...): download it first"
        )
    return name


def absolute_path(path: object) -> str:
    """Returns an absolute path as a string, valid in processes with another working directory."""
    return str(Path(checked_path(path)).absolute())


def absolute_location(path: object) -> str:
    """Returns a URL unchanged, and a local path as ``absolute_path`` does."""
    return path if isinstance(path, str) and is_url(path) else absolute_path(path)


def shown_path(
    path: PathLike | Sequence[PathLike],
) -> Path | str | tuple[Path | str, ...]:
    """Returns what ``path`` properties of datasets and handles show for a path.

    Args:
        path: path, URL, or list of them, as given by the caller.

    Returns:
        A ``Path`` for a local path, the unchanged string for a URL or the name of a buffer, a
        tuple of them for a list.
    """
    if isinstance(path, (str, os.PathLike)):
        is_name = is_url(path) or is_in_memory(path)
        return path if isinstance(path, str) and is_name else Path(path)
    return tuple(p if isinstance(p, str) and is_url(p) else Path(p) for p in path)


def bytes_at(path: Path, suffix: str = "") -> int:
    """Returns the size on disk; for a folder, that of the files with this suffix, or of all."""
    if path.is_dir():
        files = [Path(file) for file in files_in(path, suffix)] if suffix else path.rglob("*")
    else:
        files = [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def is_hidden(name: str) -> bool:
    """True if a relative path has a name that begins with a dot: of the system, not data."""
    return any(part.startswith(".") for part in name.split("/"))


def folded(name: str) -> str:
    """Returns a name in lower case, except for ``.ATP``, which is not a suffix of a shard."""
    lower = name.lower()
    return name if lower.endswith(".atp") else lower


def has_suffix(name: str, suffixes: str | tuple[str, ...]) -> bool:
    """True if a name ends with a suffix, in letters of any case; ``.atp`` in lower case alone."""
    return folded(name).endswith(suffixes)


def names_below(folder: PathLike, *, is_deep: bool = True) -> Iterator[str]:
    """Lists the files in a folder, except for hidden ones.

    Args:
        folder: the folder.
        is_deep: also those in its folders.

    Yields:
        Their paths, relative to the folder.
    """
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if is_deep and not name.startswith(".")]
        below = os.path.relpath(root, folder)
        for name in names:
            if not name.startswith("."):
                yield name if below == "." else f"{below}/{name}"


def files_in(folder: PathLike, *suffixes: str, is_deep: bool = True) -> list[str]:
    """Lists the data files of a folder: not hidden, with one of the suffixes in any case.

    Args:
        folder: the folder.
        *suffixes: the suffixes, in lower case.
        is_deep: also those in its folders.

    Returns:
        The paths, sorted.
    """
    names = (name for name in names_below(folder, is_deep=is_deep) if has_suffix(name, suffixes))
    return list(filter(os.path.isfile, (os.path.join(folder, name) for name in sorted(names))))  # noqa: PTH118
