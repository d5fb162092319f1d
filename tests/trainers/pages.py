"""The blocks of the trainers' pages, which tests run as written, and quiet options of Lightning."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parents[2] / "docs" / "trainers"
EXAMPLES = Path(__file__).parents[2] / "examples" / "trainers"
LIGHTNING: dict[str, Any] = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


def blocks_of(name: str, language: str = "python") -> list[str]:
    """The blocks of code on a page in one language, of which there is one at least."""
    text = (PAGES / f"{name}.md").read_text()
    found = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found
    return found


def run_blocks(name: str, **names: Any) -> dict[str, Any]:
    """Runs the Python of a page; returns all names."""
    for block in blocks_of(name):
        exec(block, names)
    return names
