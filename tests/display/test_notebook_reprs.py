"""HTML that notebooks show: what is in it, that names are escaped, that it costs little."""

from __future__ import annotations

import html.parser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch.display.charts import Series, histogram, integer_bins, log_ticks_of, ticks_of
from atompack_torch.display.fragments import place_of
from atompack_torch.display.markup import percent, tag

HOSTILE = '<img src=x onerror=alert(1)>\x1b[31m & "quoted"'


class Page(html.parser.HTMLParser):
    """Checks that tags are closed; collects names and text."""

    def __init__(self, shown: Any) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.titles: list[str] = []
        self.text = ""
        self.feed(shown if isinstance(shown, str) else shown._repr_html_())
        assert self.open == []
        assert not self.seen & {"img", "script", "link", "iframe"}
        assert "\x1b" not in self.text

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") for name, _ in attrs)
        self.titles += [value or "" for name, value in attrs if name == "title"]
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data + " "


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("html") / "a<i>.atp"
    rng = np.random.default_rng(0)
    with apt.AtpWriter(path) as writer:
        for n in (2, 3, 3, 5):
            writer.write(
                apt.Molecule(
                    rng.normal(size=(n, 3)),
                    [79] + [29] * (n - 1),
                    energy=1.5 if n == 3 else None,
                    forces=rng.normal(size=(n, 3)),
                    name=HOSTILE,
                    properties={HOSTILE: float(n)},
                )
            )
    return path


def test_a_batch(path: Path) -> None:
    page = Page(apt.AtpDataset(path)[:])
    assert "4 molecules, 13 atoms" in page.text
    assert "Au" in page.text
    assert "Cu" in page.text
    assert "50 %" in page.text  # have an energy
    assert "svg" in page.seen
    assert any("<img src=x onerror" in title for title in page.titles)


def test_a_molecule(path: Path) -> None:
    page = Page(apt.AtpDataset(path)[1])
    assert "3 atoms" in page.text
    assert "1.5" in page.text
    assert "onerror=alert" in page.text


def test_a_damaged_value_is_shown_as_its_error(fixtures: Path) -> None:
    for name in sorted(fixtures.glob("bad_*.atp")):
        try:
            molecules = [apt.AtpDataset(name)[i] for i in range(len(apt.AtpDataset(name)))]
        except apt.AtompackError:
            continue
        for molecule in molecules:
            Page(molecule)


def test_a_data_set_and_its_subset(path: Path) -> None:
    dataset = apt.AtpDataset(path)
    page = Page(dataset)
    assert "4 molecules, 13 atoms" in page.text
    assert "eV/Å" in page.text
    assert "a<i>.atp" in page.text
    assert "svg" in page.seen
    assert "2 molecules, 6 atoms" in Page(dataset.subset([1, 2])).text


def test_a_data_set_reads_no_records(fixtures: Path) -> None:
    dataset = apt.AtpDataset(fixtures / "bad_section_cut.atp")
    with pytest.raises(apt.CorruptFileError):
        dataset[:]
    assert "molecules" in Page(dataset).text


def test_a_data_set_whose_file_is_gone(tmp_path: Path) -> None:
    apt.AtpWriter(tmp_path / "gone.atp").close()
    dataset = apt.open(tmp_path / "gone.atp")
    (tmp_path / "gone.atp").unlink()
    assert dataset._repr_html_() is None
    assert "gone.atp" in repr(dataset)


def test_shards_and_columns(tmp_path: Path) -> None:
    with apt.ShardWriter(tmp_path / "shards", 20, 5) as shards:
        for i in range(6):
            shards.write({"image": np.zeros((2, 2)), HOSTILE: i})
    assert "6 examples" in Page(apt.ShardDataset(tmp_path / "shards")).text
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        for name in ("a<b>", "c"):
            store.create_dataset(name)
        store.define_array("a<b>", "t", "float32", (5,))
        store.write("a<b>", "t", np.arange(5, dtype=np.float32))
    assert "2 datasets" in Page(apt.AtlasDataset(tmp_path / "store", ["t"])).text
    for layout in ("stacked", "jagged", "list"):
        scan = apt.AtlasStore(tmp_path / "store").scan("t", layout=layout)  # type: ignore[call-overload]
        page = Page(scan)
        assert "50 % (1)" in page.text
        assert "a<b>" in page.text
        assert layout in page.text
        assert ("svg" in page.seen) == (layout != "list")


def test_statistics(path: Path) -> None:
    found = apt.AtpDataset(path).statistics()
    page = Page(found)
    assert "energy per atom" in page.text
    assert "50 % (2)" in page.text
    assert "Au" in page.text


def test_an_empty_data_set(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "empty.atp"):
        pass
    dataset = apt.AtpDataset(tmp_path / "empty.atp")
    assert "0 molecules" in Page(dataset).text
    Page(dataset.statistics())
    Page(dataset[:])


def test_many_fields_are_cut() -> None:
    properties = {f"key{i:03}": float(i) for i in range(200)}
    molecule = apt.Molecule([[0.0, 0, 0]], [1], properties=properties)
    page = Page(molecule)
    assert "key010" in page.text
    assert "key199" not in page.text
    assert "more" in page.text


def test_values_on_other_devices_and_dtypes() -> None:
    batch = apt.Molecule([[0.0, 0, 0]], [200], charges=[1.0])._batch
    assert "Z200" in Page(batch.to(torch.float32)).text


def test_attributes_are_escaped() -> None:
    assert tag("p", "<", title='"&') == '<p title="&quot;&amp;">&lt;</p>'
    assert tag("p", "a\x00b") == "<p>a\\x00b</p>"


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 0, "\N{EN DASH}"), (0, 5, "0 %"), (5, 5, "100 %"), (1, 10**9, "0.01 %")],
)
def test_shares(part: int, whole: int, text: str) -> None:
    assert percent(part, whole) == text
    assert percent(10**9 - 1, 10**9) == "99.99 %"


def test_places_in_the_periodic_table() -> None:
    places = [place_of(z) for z in range(1, 119)]
    assert len(set(places)) == 118
    named = {1: (1, 1), 2: (1, 18), 5: (2, 13), 26: (4, 8), 71: (6, 3), 57: (8, 3), 118: (7, 18)}
    assert {z: place_of(z) for z in named} == named


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3.2, 17), (1e-7, 3e-7), (5, 1e9), (-2, -1)])
def test_ticks_are_round_and_few(low: float, high: float) -> None:
    ticks = ticks_of(low, high)
    assert 1 <= len(ticks) <= 6
    margin = 1e-9 * max(abs(low), abs(high))
    assert all(low - margin <= tick <= high + margin for tick in ticks)
    assert 1 <= len(log_ticks_of(low % 5, low % 5 + 3)) <= 10


def test_bins_of_integers_hold_each_once() -> None:
    for low, high in ((3, 3), (1, 48), (1, 49), (7, 1000)):
        edges = integer_bins(low, high)
        assert edges[0] < low
        assert edges[-1] > high
        assert len(edges) <= 49
        assert not any(float(edge).is_integer() for edge in edges)


def test_an_empty_data_set_beside_another_keeps_its_name() -> None:
    edges = [0.0, 1.0, 2.0]
    for one, other in (([0, 0], [3, 1]), ([3, 1], [0, 0])):
        shown = histogram(edges, [Series("one", one), Series("two", other)], label="x")
        page = Page(shown)
        assert "one" in page.text
        assert "two" in page.text
        assert "75 %" in page.text
        assert ("polyline" in page.seen) == any(other)
        assert ("rect" in page.seen) == any(one)
    assert histogram(edges, [Series("one", [0, 0])], label="x") == ""
