"""Loops of one's own and torchdata's loader on two ranks: every molecule once, resuming."""

from __future__ import annotations

import pytest
from runs import Ranks, assert_complete, start

pytestmark = pytest.mark.timeout(500)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ranks]:
    """What came of every case, on each rank."""
    return start(tmp_path_factory.mktemp("plain"), "plain_rank.py")


STATEFUL = ["stateful, 0", "stateful, 2"]


@pytest.mark.parametrize("name", ["molecules", "blocks", "loader_molecules"])
def test_padded_to_equal_ranks(found: dict[str, Ranks], name: str) -> None:
    assert_complete(found[name], repeated=1)


@pytest.mark.parametrize("name", ["budget", "loader_budget"])
def test_every_molecule_once(found: dict[str, Ranks], name: str) -> None:
    assert_complete(found[name])


@pytest.mark.parametrize("name", ["molecules", "blocks", "budget"])
@pytest.mark.parametrize("loader", STATEFUL)
def test_stateful_loader(found: dict[str, Ranks], name: str, loader: str) -> None:
    assert_complete(found[f"{name}, {loader}"], repeated=int(name != "budget"))


NAMES = ["loader_budget, resumed", "budget, counted"]
NAMES += [f"budget, {loader}, resumed" for loader in STATEFUL]


@pytest.mark.parametrize("name", NAMES)
def test_resuming_batches(found: dict[str, Ranks], name: str) -> None:
    assert_complete(found[name])
    _assert_same_batches(found, name)


NAMES = ["loader_molecules, resumed", "molecules, counted", "blocks, counted"]
NAMES += [f"{name}, {loader}, resumed" for name in ("molecules", "blocks") for loader in STATEFUL]


@pytest.mark.parametrize("name", NAMES)
def test_resuming_molecules(found: dict[str, Ranks], name: str) -> None:
    assert_complete(found[name], repeated=1)
    _assert_same_batches(found, name)


def _assert_same_batches(found: dict[str, Ranks], name: str) -> None:
    """The batches are those of a run that was not stopped."""
    whole = found[name.partition(",")[0]]
    assert [rank["epochs"] for rank in found[name]] == [rank["epochs"] for rank in whole]
