"""The page of a report in a real browser: light and dark, desktop and phone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from browsers import WIDTHS, errors_of, requests_of, set_screen
from selenium import webdriver

import atompack_torch as apt

SECTIONS = (
    *("overview", "sizes", "elements", "labels", "energies"),
    *("forces", "cells", "groups", "neighbors", "duplicates"),
)

# Elements with text of their own: what is behind each, and the contrast of WCAG 2 with it.
CONTRASTS = """
const number = (text) => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((c) => {
    c /= 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const behind = (element) => {
  for (; element; element = element.parentElement) {
    const color = number(getComputedStyle(element).backgroundColor);
    if (color.length < 4 || color[3] > 0) return color;
  }
  throw "no background";
};
const texts = [...document.querySelectorAll("body *")].filter((element) =>
  !element.closest("svg") &&
  [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
return texts.map((element) => {
  const [a, b] = [light(number(getComputedStyle(element).color)), light(behind(element))];
  return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), element.textContent.slice(0, 40)];
});
"""
BOXES = """
return [...document.querySelectorAll("section")].map((section) => {
  const box = section.getBoundingClientRect(), head = section.querySelector("h2");
  return [section.id, box.left, box.right, box.height, head.checkVisibility()];
});
"""
BEYOND = """
const room = arguments[0], scrolls = (element) => element.closest(".apt-table");
return [...document.querySelectorAll("main *")].filter((element) => {
  const box = element.getBoundingClientRect();
  const isBeyond = box.width && box.right > room + 0.5;
  return isBeyond && !scrolls(element) && !element.closest("svg");
}).map((element) => element.outerHTML.slice(0, 80));
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    for name, n in (("train with a rather long name & <i>signs.atp", 300), ("test.atp", 80)):
        with apt.AtpWriter(folder / name) as writer:
            for i in range(n):
                k = 1 if i < 3 else int(rng.integers(4, 40))
                forces = rng.normal(size=(k, 3)).astype(np.float32)
                name = "<script>document.title = 1</script>" * 3
                writer.write(
                    apt.Molecule(
                        rng.uniform(0, 9, (k, 3)).astype(np.float32),
                        rng.choice([1, 6, 8, 29, 57, 79], k, p=[0.5, 0.3, 0.1, 0.05, 0.04, 0.01]),
                        energy=None if i % 9 == 0 else float(rng.normal(-3 * k, k)),
                        forces=forces,
                        cell=np.eye(3) * 9,
                        pbc=np.full(3, k > 1),
                        properties={name: 1.0, "config_type": ("bulk", name, "liquid")[i % 3]},
                        atom_properties={"model_forces": forces + 0.1},
                    )
                )
    paths = sorted(folder.glob("*.atp"), reverse=True)
    predicted = {"model_forces": "forces"}
    apt.report(*paths, output=folder / "report.html", predicted=predicted)
    return (folder / "report.html").as_uri()


@pytest.fixture
def room(request: pytest.FixtureRequest) -> int:
    """Width of the screen."""
    return next(width for name, width in WIDTHS.items() if name in request.node.name)


@pytest.fixture(params=[(w, s) for w in WIDTHS for s in ("light", "dark")], ids="-".join)
def shown(browser: webdriver.Chrome, page: str, request: pytest.FixtureRequest) -> webdriver.Chrome:
    width, scheme = request.param
    set_screen(browser, width, scheme)
    browser.get_log("performance")
    browser.get(page)
    return browser


def test_nothing_overflows(shown: webdriver.Chrome, room: int) -> None:
    # Not innerWidth, which grows with the page on a phone.
    assert shown.execute_script("return document.documentElement.scrollWidth") <= room
    assert shown.execute_script(BEYOND, room) == []


def test_all_sections_are_visible(shown: webdriver.Chrome, room: int) -> None:
    boxes = shown.execute_script(BOXES)
    assert [box[0] for box in boxes] == [*SECTIONS]
    for name, left, right, height, is_visible in boxes:
        assert is_visible, name
        assert 0 <= left < right <= room, name
        assert height > 60, name
    drawn = shown.execute_script(
        "return [...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect().height)"
    )
    assert len(drawn) >= 6
    assert min(drawn) > 100


def test_text_stands_out(shown: webdriver.Chrome) -> None:
    found: list[tuple[float, str]] = shown.execute_script(CONTRASTS)
    assert len(found) > 300
    assert [row for row in found if row[0] < 4.5] == []


def test_it_follows_the_color_scheme(shown: webdriver.Chrome, request: Any) -> None:
    color = shown.execute_script(
        "return getComputedStyle(document.documentElement).backgroundColor"
    )
    brightness = sum(int(c) for c in color.removeprefix("rgb(").rstrip(")").split(","))
    is_light = "light" in request.node.name
    assert (brightness > 3 * 240) if is_light else (brightness < 3 * 40)


def test_nothing_is_requested_or_run(shown: webdriver.Chrome, page: str) -> None:
    assert requests_of(shown) == [page]
    assert shown.title.startswith("Report: ")
    assert errors_of(shown) == []
