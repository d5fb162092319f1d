"""JSON text read value by value, plain or compressed, so that memory holds one of them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TextIO, cast

from atompack_torch._native import check_regular_file
from atompack_torch.errors import CorruptFileError
from atompack_torch.formats.conversion_report import described

MAX_VALUE_CHARACTERS = 1 << 26
_CHUNK = 1 << 20
_OPENERS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\0", lzma.open))
_SPACE = re.compile(r"[ \t\r\n]*")
_TOKEN_CHARACTERS = 16  # longest token that is cut at the end of the text: -Infinity, \uXXXX


def opened_text(path: str, errors: str = "strict") -> TextIO:
    """Opens a text, which may be compressed by gzip, bzip2 or xz.

    Args:
        path: the file.
        errors: treatment of bytes that are no UTF-8, as in ``open``.

    Returns:
        The text, UTF-8.

    Raises:
        UnsupportedFormatError: it is not a regular file.
        OSError: it cannot be opened.
    """
    check_regular_file(path)
    with Path(path).open("rb") as file:
        head = file.read(8)
    opener = next((known for magic, known in _OPENERS if head.startswith(magic)), open)
    stream = cast("IO[bytes]", opener(path, "rb"))
    return io.TextIOWrapper(stream, encoding="utf-8", errors=errors, newline="")


class JsonStream:
    """Values of a JSON text in order; a context manager.

    Args:
        path: the file, plain or compressed.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._stream = opened_text(path)
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._before = "", 0, 0
        self._is_end = False

    def __enter__(self) -> JsonStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def head(self, n: int) -> str:
        """Returns up to ``n`` of the next characters, without moving on."""
        while len(self._text) - self._at < n and not self._is_end:
            self._fill()
        return self._text[self._at : self._at + n]

    def peek(self) -> str:
        """Returns the next character that is not a space, without moving on; "" at the end."""
        while True:
            match = _SPACE.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text) or self._is_end:
                return self._text[self._at : self._at + 1]
            self._fill()

    def skip(self, expected: str) -> None:
        """Moves past a character.

        Args:
            expected: the character.

        Raises:
            CorruptFileError: another follows.
        """
        got = self.peek()
        if got != expected:
            raise self.fault(f"expected {expected!r}, got {got!r}" if got else self._missing())
        self._at += 1

    def value(self) -> Any:
        """Reads the next value.

        Returns:
            The value.

        Raises:
            CorruptFileError: it is no JSON, is cut, or is larger than any molecule.
        """
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._is_end or not self._may_be_cut(error):
                    at = self._before + error.pos
                    text = self._missing() if self._may_be_cut(error) else error.msg
                    raise self.fault(text, at) from None
            except (ValueError, RecursionError) as error:  # numbers or nesting beyond limits
                raise self.fault(described(error)) from None
            else:
                if end < len(self._text) or self._is_end:
                    self._at = end
                    return value
            if len(self._text) - self._at > MAX_VALUE_CHARACTERS:
                raise self.fault(f"expected values of at most {MAX_VALUE_CHARACTERS} characters")
            self._fill()

    def keys(self) -> Iterator[str]:
        """Yields the keys of an object; the caller reads the value of each.

        Yields:
            The keys.

        Raises:
            CorruptFileError: the object is damaged.
        """
        self.skip("{")
        while self.peek() != "}":
            key = self.value()
            if not isinstance(key, str):
                raise self.fault(f"expected a key, got {key!r:.40}")
            self.skip(":")
            yield key
            if self.peek() != "}":
                self.skip(",")
        self.skip("}")

    def items(self) -> Iterator[Any]:
        """Yields the values of an array.

        Yields:
            The values.

        Raises:
            CorruptFileError: the array is damaged.
        """
        self.skip("[")
        while self.peek() != "]":
            yield self.value()
            if self.peek() != "]":
                self.skip(",")
        self.skip("]")

    def fault(self, text: str, at: int | None = None) -> CorruptFileError:
        """Builds an error.

        Args:
            text: the fault.
            at: character where it is; None: the next one.

        Returns:
            The error, to be raised.
        """
        where = self._before + self._at if at is None else at
        return CorruptFileError(f"{self._path}: JSON: {text} (character {where})")

    def _missing(self) -> str:
        return "expected the rest of a value, got the end of the file"

    def _may_be_cut(self, error: json.JSONDecodeError) -> bool:
        is_near_end = error.pos >= len(self._text) - _TOKEN_CHARACTERS
        return is_near_end or error.msg.startswith("Unterminated string")

    def _fill(self) -> None:
        """Reads more, as much as has already arrived, so that long values take few attempts."""
        rest = self._text[self._at :]
        try:
            more = self._stream.read(max(_CHUNK, len(rest)))
        except UnicodeDecodeError:
            raise CorruptFileError(f"{self._path}: expected UTF-8, got other bytes") from None
        except Exception as error:  # each compression has its own errors
            raise CorruptFileError(f"{self._path}: {described(error)}") from error
        self._is_end = not more
        self._before += self._at
        self._text, self._at = rest + more, 0
