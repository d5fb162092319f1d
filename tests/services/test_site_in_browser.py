"""The documentation in a real browser: search, colors, copy buttons, phones, no other host."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browsers import WIDTHS, errors_of, requests_of, set_screen
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).parents[2]
SECONDS = 60
PAGES = ("index.html", "tutorial.html", "benchmarks.html", "command_line.html", "api/datasets.html")

# Images that the browser could not decode; those not loaded yet, because they are below the screen,
# are loaded first.
BROKEN = """
const done = arguments[0], images = [...document.images];
for (const image of images) image.loading = "eager";
Promise.all(images.map((image) => image.decode().then(() => null, () => image.src)))
  .then((found) => done(found.filter((source) => source)));
"""
BACKGROUND = "return getComputedStyle(document.body).backgroundColor"
TOGGLE = """
const shown = [...document.querySelectorAll("form[data-md-component=palette] label")]
  .filter((label) => !label.hidden);
shown[0].click();
return shown.length;
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def site(built: Path) -> Iterator[str]:
    """URL of the site on loopback."""
    handler = functools.partial(_Quiet, directory=str(built))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def wait(browser: webdriver.Chrome) -> Callable[[str], Any]:
    """Returns a function that waits until a script returns something true, and returns that."""

    def until(script: str) -> Any:
        return WebDriverWait(browser, SECONDS).until(lambda _: browser.execute_script(script))

    return until


def elsewhere(requested: list[str], site: str) -> list[str]:
    """Returns requests to other hosts."""
    return [url for url in requested if not url.startswith((site, "data:", "blob:"))]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_pages(browser: webdriver.Chrome, site: str, page: str, width: str, scheme: str) -> None:
    set_screen(browser, width, scheme)
    requests_of(browser)
    errors_of(browser)
    browser.get(site + page)
    browser.set_script_timeout(SECONDS)
    assert browser.find_element(By.CSS_SELECTOR, "main h1").text
    assert browser.execute_async_script(BROKEN) == []
    # Not innerWidth, which grows with the page on a phone.
    scrolled = browser.execute_script("return document.documentElement.scrollWidth")
    assert scrolled <= WIDTHS[width]
    numbers = browser.execute_script(BACKGROUND).removeprefix("rgb(").rstrip(")").split(",")
    brightness = sum(int(number) for number in numbers)
    assert brightness > 3 * 200 if scheme == "light" else brightness < 3 * 80
    requested = requests_of(browser)
    assert site + page in requested
    assert elsewhere(requested, site) == []
    assert errors_of(browser) == []


def test_every_page_loads(browser: webdriver.Chrome, site: str, built: Path) -> None:
    """On a phone: none is wider than the screen."""
    set_screen(browser, "phone", "light")
    pages = [file.relative_to(built).as_posix() for file in sorted(built.rglob("*.html"))]
    assert len(pages) > 50
    wide = {}
    for page in pages:
        browser.get(site + page)
        width = browser.execute_script("return document.documentElement.scrollWidth")
        if width > WIDTHS["phone"]:
            wide[page] = width
    assert wide == {}
    assert [
        url for url in requests_of(browser) if not url.startswith((site, "data:", "blob:"))
    ] == []


def test_search(browser: webdriver.Chrome, site: str, wait: Callable[[str], Any]) -> None:
    set_screen(browser, "desktop", "light")
    browser.get(site + "index.html")
    field = browser.find_element(By.CSS_SELECTOR, "input.md-search__input")
    browser.execute_script("document.querySelector('[data-md-toggle=search]').click()")
    field.send_keys("missing labels")
    links = wait(
        "const found = [...document.querySelectorAll('a.md-search-result__link')];"
        "return found.length ? found.map((link) => link.href) : null"
    )
    assert any("missing_labels.html" in link for link in links)


def test_colors_toggle(browser: webdriver.Chrome, site: str) -> None:
    """Three states in turn: those of the system, light, dark."""
    set_screen(browser, "desktop", "light")
    browser.get(site + "index.html")
    browser.execute_script("localStorage.clear()")
    browser.refresh()
    seen = []
    for _ in range(3):
        seen.append(browser.execute_script(BACKGROUND))
        assert browser.execute_script(TOGGLE) == 1
    assert len(set(seen)) == 2
    assert browser.execute_script(BACKGROUND) == seen[0]
    browser.execute_script("localStorage.clear()")


def test_copy_buttons(browser: webdriver.Chrome, site: str, wait: Callable[[str], Any]) -> None:
    """Every block of code has one, and it copies the block's text."""
    set_screen(browser, "desktop", "light")
    browser.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]},
    )
    browser.get(site + "tutorial.html")
    wait("return document.querySelector('button[data-md-type=copy], button.md-clipboard')")
    blocks = browser.find_elements(By.CSS_SELECTOR, "div.highlight")
    buttons = browser.find_elements(By.CSS_SELECTOR, "div.highlight button")
    assert len(blocks) == len(buttons) > 3
    text = browser.execute_script("return arguments[0].querySelector('code').innerText", blocks[0])
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", buttons[0])
    buttons[0].click()  # as a user: scripts may not write to the clipboard
    copied = WebDriverWait(browser, SECONDS).until(
        lambda _: browser.execute_async_script(
            "const done = arguments[0]; navigator.clipboard.readText().then(done, done)"
        )
    )
    assert copied.strip() == text.strip()
