"""Colors of the terminal, where there is one."""

from __future__ import annotations

import os
from typing import Literal, TextIO

Style = Literal["bold", "dim", "red", "green", "yellow", "cyan"]

_CODES: dict[Style, str] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}


def has_colors(stream: TextIO | None) -> bool:
    """True if a stream shows colors: a terminal, unless ``NO_COLOR`` is set or ``TERM`` is dumb.

    ``FORCE_COLOR`` asks for colors wherever the output goes.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def styled(text: str, style: Style, stream: TextIO | None) -> str:
    """Returns a text in a style if the stream shows colors, else as given.

    Args:
        text: the text, without control characters.
        style: name of the style.
        stream: where it will be written.

    Returns:
        The text, with escape sequences around it.
    """
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if has_colors(stream) else text
