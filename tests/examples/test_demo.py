"""The demo: it trains, names model and data in its picture, and tells the next step."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import pytest
import torch

import atompack_torch as apt

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_demo(example: Callable[..., str], tmp_path: Path) -> None:
    """It makes its molecules itself."""
    printed = example("02_train.py", "--molecules", 40, "--epochs", 2, "--out", tmp_path)
    assert len(re.findall(r"^epoch +\d", printed, re.MULTILINE)) == 2
    assert "this potential" in printed
    assert (tmp_path / "alloys.png").stat().st_size > 20_000
    target = re.search(r"next: `make ([\w-]+)`", printed)
    assert target
    makefile = (EXAMPLES.parent / "Makefile").read_text()
    assert f"\n{target[1]}: " in makefile


def test_data_in_double_precision(
    example: Callable[..., str], alloys: Path, tmp_path: Path
) -> None:
    path = tmp_path / "own.atp"
    apt.convert(alloys, path, dtype="float64", progress=False)
    assert "this potential" in example("02_train.py", path, "--epochs", 1, "--out", tmp_path)


def test_the_picture_names_model_data_and_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import evaluation

    torch.manual_seed(0)
    found = evaluation.Predictions(*torch.randn(3, 20), *torch.randn(2, 60))
    with mpl.rc_context({"svg.fonttype": "none"}):  # words as words
        evaluation.draw(found, [(0.2, 0.3), (0.1, 0.2)], tmp_path / "a.svg", "MODEL 7", "DATA 9")
    texts = re.findall(r"<text[^>]*>([^<]*)", (tmp_path / "a.svg").read_text())
    energy_error, force_error = found.errors()
    for shown in (
        *("MODEL 7", "DATA 9"),
        *("EMT energy, eV/atom", "predicted force component, eV/Å"),
        f"Energies: mean absolute error {1000 * energy_error:.1f} meV/atom",
        f"Forces: mean absolute error {1000 * force_error:.0f} meV/Å",
    ):
        assert shown in texts
