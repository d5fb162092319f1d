"""A progress bar for long work on the command line and in scripts."""

from __future__ import annotations

import importlib
import shutil
import sys
import time
from collections.abc import Iterable
from typing import Any, TextIO

_BAR = 24
_SHORTEST_BAR = 8
_SECONDS_BETWEEN = 0.1


class Progress:
    """Counts work and shows it on stderr.

        with Progress(len(ds), "molecules", label="verifying") as progress:
            progress.update(64)

    On a terminal one line is kept up to date, with the rate and, if the total is known, the
    remaining time; on a narrow one it has fewer parts. A notebook shows the widget of ``tqdm.auto``
    if tqdm is installed. Elsewhere (a log file, a pipe) only a final line is written, with the
    amount of work and the elapsed time.

    Args:
        total: total amount of work; None: unknown.
        unit: name of the counted items, in the plural.
        label: name of the activity, at the start of the line.
        enabled: False writes nothing at all; None: True.
        stream: output stream; None: ``sys.stderr``.
    """

    def __init__(
        self,
        total: int | None,
        unit: str,
        *,
        label: str = "",
        enabled: bool | None = None,
        stream: TextIO | None = None,
    ) -> None:
        self._total = total
        self._unit = unit
        self._label = f"{label}: " if label else ""
        self._stream = sys.stderr if stream is None else stream
        self._enabled = enabled is not False and self._stream is not None
        self._live = self._enabled and self._stream.isatty()
        self._done = 0
        self._start = self._shown = time.monotonic()
        self._widget = None
        if self._enabled and not self._live and stream is None and is_notebook():
            self._widget = _widget(total, unit, label)

    @property
    def done(self) -> int:
        """Amount of work done so far."""
        return self._done

    def update(self, n: int = 1) -> None:
        """Adds ``n`` to the amount of work done."""
        self._done += n
        if self._widget is not None:
            self._widget.update(n)
            return
        now = time.monotonic()
        if self._live and now - self._shown >= _SECONDS_BETWEEN:
            self._shown = now
            self._write(self._line(now - self._start))

    def close(self, *, complete: bool = True) -> None:
        """Writes the last line; later calls do nothing."""
        if self._widget is not None:
            self._widget.close()
        elif self._enabled:
            seconds = time.monotonic() - self._start
            stopped = "" if complete else "stopped after "
            rate = f" ({self._rate(seconds)})" if self._done else ""
            last = f"{stopped}{self._done:,} {self._unit} in {seconds:.1f} s"
            forms = (f"{self._label}{last}{rate}", f"{self._label}{last}", last)
            self._write(self._fitting(forms), end="\n")
        self._enabled = self._live = False
        self._widget = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(complete=kind is None)

    def _line(self, seconds: float) -> str:
        if not self._total:
            done = f"{self._done:,} {self._unit}"
            tails = (f"  {self._rate(seconds)}  {_clock(seconds)}", f"  {_clock(seconds)}", "")
            return self._fitting([*(f"{self._label}{done}{tail}" for tail in tails), done])
        share = min(self._done / self._total, 1.0)
        left = (_clock(seconds * (1 / share - 1)) if share else "--:--") + " left"
        done = f"{self._done:,}/{self._total:,} {self._unit}"
        forms = []
        for parts in ((done, self._rate(seconds), left), (done, left), (left,)):
            tail = "  ".join((f" {share:4.0%}", *parts))
            width = min(_BAR, self._columns() - len(f"{self._label}[]{tail}"))
            if width >= _SHORTEST_BAR:
                bar = "#" * int(share * width)
                forms.append(f"{self._label}[{bar:.<{width}}]{tail}")
        return self._fitting(
            [*forms, f"{self._label}{share:4.0%}  {left}", f"{share:4.0%}  {left}"]
        )

    def _columns(self) -> int:
        """Returns the length that a line can have; a file has no limit."""
        return shutil.get_terminal_size().columns - 1 if self._live else sys.maxsize

    def _fitting(self, forms: Iterable[str]) -> str:
        """Returns the first of several forms of a line that fits; if none does, an empty line."""
        columns = self._columns()
        return next((form for form in forms if len(form) <= columns), "")

    def _rate(self, seconds: float) -> str:
        rate = self._done / max(seconds, 1e-9)
        return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"

    def _write(self, line: str, end: str = "") -> None:
        if self._live:  # return to the start of the line and clear it
            line = "\r\x1b[K" + line
        self._stream.write(line + end)
        self._stream.flush()


def is_notebook() -> bool:
    """True in the kernel of a notebook, which shows output but is not a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _widget(total: int | None, unit: str, label: str) -> Any:
    """Returns a tqdm bar; None if tqdm is not installed."""
    try:
        tqdm = importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return None
    return tqdm(total=total, unit=f" {unit}", desc=label or None, unit_scale=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
