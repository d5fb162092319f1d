"""A headless browser that is driven by tests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

WIDTHS = {"desktop": 1280, "phone": 360}


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    assert all(programs), "make test-services installs chromium and chromium-driver"
    options.binary_location = str(programs[0])
    driver = webdriver.Chrome(options=options, service=Service(str(programs[1])))
    yield driver
    driver.quit()


def set_screen(browser: webdriver.Chrome, width: str, scheme: str) -> None:
    """Chooses the screen, a key of ``WIDTHS``, and the preferred colors, ``light`` or ``dark``."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": WIDTHS[width], "height": 800, "deviceScaleFactor": 1, "mobile": width == "phone"},
    )
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )


def requests_of(browser: webdriver.Chrome) -> list[str]:
    """Returns the URLs requested since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


def errors_of(browser: webdriver.Chrome) -> list[str]:
    """Returns the errors that the browser reported since the last call."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
