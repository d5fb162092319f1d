"""MkDocs hook: shows at the foot of each page of which version the site is."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def on_config(config: MkDocsConfig) -> None:
    """Takes the version of the package."""
    (version,) = re.findall(r'^version = "(.+)"$', PROJECT.read_text(), re.MULTILINE)
    config.copyright = f"{config.site_name} {version}"
