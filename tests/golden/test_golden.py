"""Compares batches, orders, output of commands, pickles and signatures with the stored digests."""

from __future__ import annotations

import difflib
import json

import pytest
from golden import signatures
from golden.cases import CASES
from golden.description import GOLDEN, digest_of, text_of

STORED = json.loads((GOLDEN / "golden.json").read_text())


def test_every_case_is_stored() -> None:
    assert STORED.keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    found = CASES[name]()
    assert digest_of(found) == STORED[name], (
        f"{name}: another description than the stored one; compare this one with the output of "
        f"`make_golden.py '{name}'` at an earlier commit:\n{text_of(found)}"
    )


def test_signatures() -> None:
    want = (GOLDEN / "signatures.txt").read_text().splitlines()
    found = [*difflib.unified_diff(want, signatures.public_signatures(), lineterm="", n=0)]
    assert not found, "\n".join(found)
