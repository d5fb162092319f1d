"""Public names and their signatures change only on purpose."""

from __future__ import annotations

import difflib
from pathlib import Path

from golden.signatures import public_signatures


def test_signatures() -> None:
    """Stored by `"\\n".join(public_signatures())`, to be changed with the page of the class."""
    want = Path(__file__).with_name("signatures.txt").read_text().splitlines()
    found = [*difflib.unified_diff(want, public_signatures(), lineterm="", n=0)]
    assert not found, "\n".join(found)
