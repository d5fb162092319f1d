"""The progress bar: what it writes where, and that it can be silent."""

from __future__ import annotations

import io
import sys
import types

import pytest

from atompack_torch.progress import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_elsewhere_only_the_last_line() -> None:
    stream = io.StringIO()
    with Progress(10, "molecules", label="reading", stream=stream) as progress:
        for _ in range(10):
            progress.update()
    assert stream.getvalue().startswith("reading: 10 molecules in 0.0 s (")
    assert stream.getvalue().endswith("/s)\n")
    assert stream.getvalue().count("\n") == 1


def lines_of(
    monkeypatch: pytest.MonkeyPatch, clock: list[float], total: int | None, label: str, n: list[int]
) -> list[str]:
    """Lines that a terminal shows at these times."""
    times = iter(clock)
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    stream = Terminal()
    with Progress(total, "molecules", label=label, stream=stream) as progress:
        for done in n:
            progress.update(done)
    first, *lines = stream.getvalue().split("\r\x1b[K")
    assert first == ""
    return lines


def test_a_terminal_is_kept_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines_of(monkeypatch, [0.0, 0.05, 1.0, 3.0], 400, "", [50, 50]) == [  # one is too early
        "[######..................]  25%  100/400 molecules  100/s  0:03 left",
        "100 molecules in 3.0 s (33/s)\n",
    ]


def test_an_unknown_total(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_of(monkeypatch, [0.0, 100.0, 7200.0], None, "reading", [5])
    assert lines[0] == "reading: 5 molecules  0.05/s  1:40"


@pytest.mark.parametrize(
    ("columns", "label", "bar", "last"),
    [
        (20, "x" * 50, " 25%  0:37 left", ""),
        (
            *(40, "verify", "verify: [###..........]  25%  0:37 left"),
            "verify: 1,234,567 molecules in 13.0 s",
        ),
        (
            *(70, "v"),
            "v: [####.............]  25%  1,234,567/4,938,268 molecules  0:37 left",
            "v: 1,234,567 molecules in 13.0 s (95,179/s)",
        ),
    ],
)
def test_lines_are_whole_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: int, label: str, bar: str, last: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = lines_of(monkeypatch, [0.0, 12.345, 12.971], 4_938_268, label, [1_234_567])
    assert lines == [bar, f"{last}\n"]


def test_silent() -> None:
    stream = Terminal()
    with Progress(10, "molecules", enabled=False, stream=stream) as progress:
        progress.update(10)
    assert stream.getvalue() == ""
    assert progress.done == 10


def test_an_error_is_told() -> None:
    stream = io.StringIO()

    def fail() -> None:
        with Progress(10, "molecules", stream=stream) as progress:
            progress.update(3)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert stream.getvalue().startswith("stopped after 3 molecules in ")


def test_stderr_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(None, "files") as progress:
        progress.update()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("1 files in ")


class Kernel:
    """Stands for IPython in the kernel of a notebook."""

    kernel = object()

    def get_ipython(self) -> Kernel:
        return self


class Widgets(types.ModuleType):
    """Stands for tqdm.auto: notes what its bars are told."""

    def __init__(self) -> None:
        super().__init__("tqdm.auto")
        self.calls: list[object] = []

    def tqdm(self, **options: object) -> Widgets:
        self.calls.append(options)
        return self

    def update(self, n: int) -> None:
        self.calls.append(n)

    def close(self) -> None:
        self.calls.append("closed")


def test_a_notebook_shows_a_widget(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    widgets = Widgets()
    monkeypatch.setitem(sys.modules, "IPython", Kernel())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "tqdm.auto", widgets)
    with Progress(10, "molecules", label="reading") as progress:
        progress.update(4)
        progress.update()
    progress.close()
    options = {"total": 10, "unit": " molecules", "desc": "reading", "unit_scale": True}
    assert widgets.calls == [options, 4, 1, "closed"]
    assert progress.done == 5
    with Progress(10, "molecules", enabled=False) as progress:
        progress.update(4)
    assert len(widgets.calls) == 4
    assert capsys.readouterr() == ("", "")


def test_a_notebook_without_tqdm_gets_the_last_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "IPython", Kernel())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with Progress(2, "files") as progress:
        progress.update(2)
    assert capsys.readouterr().err.startswith("2 files in ")


def test_an_ipython_terminal_has_the_line_of_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Kernel()
    monkeypatch.setattr(Kernel, "kernel", None)
    widgets = Widgets()
    monkeypatch.setitem(sys.modules, "IPython", shell)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "tqdm.auto", widgets)
    with Progress(2, "files") as progress:
        progress.update(2)
    assert widgets.calls == []
