"""The pictures of the README and the landing page show figures of the table of all benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "benchmarks"))

import six_figures  # noqa: E402

TABLE = (REPOSITORY / "docs" / "benchmarks.md").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_have_the_figures_of_the_table(scheme: str) -> None:
    drawn = six_figures.picture(six_figures.figures_of(TABLE), six_figures.COLORS[scheme])
    assert (REPOSITORY / f"docs/img/speed_{scheme}.svg").read_text() == drawn


def test_other_measurements_give_other_figures() -> None:
    figures = six_figures.figures_of(TABLE.replace("228x h5py", "1,234x h5py"))
    assert figures[5].times == 1234
    assert f'font-weight="600">1234{six_figures.TIMES}<' in six_figures.picture(
        figures, ("a", "b", "c")
    )
    with pytest.raises(SystemExit, match="no row for neighbors"):
        six_figures.figures_of(TABLE.replace("| neighbors |", "| neighbours |"))
