"""accelerate on two ranks, which deals batches itself: every molecule once, other epochs."""

from __future__ import annotations

import pytest
from cases import BATCH, N
from runs import RANKS, Ranks, assert_complete, error_of, start

pytest.importorskip("accelerate")
pytestmark = pytest.mark.timeout(500)
EVEN = -N % (BATCH * RANKS)  # repeated by accelerate, so that all batches are full


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ranks]:
    """What came of every case, on each rank."""
    return start(tmp_path_factory.mktemp("accelerate"), "accelerate_rank.py")


NAMES = ["molecules", "blocks", "plain", "molecules, workers", "molecules, skipping"]
NAMES += ["molecules, stateful"]


@pytest.mark.parametrize("name", NAMES)
def test_even_batches(found: dict[str, Ranks], name: str) -> None:
    assert_complete(found[name], repeated=EVEN)


NAMES = ["budget", "loader_budget", "budget, uneven", "budget, workers", "budget, skipping"]
NAMES += ["budget, stateful"]


@pytest.mark.parametrize("name", NAMES)
def test_batches_under_a_budget(found: dict[str, Ranks], name: str) -> None:
    """No molecule twice, and as many steps on each rank, whatever accelerate does with the end."""
    assert_complete(found[name])


def test_uneven_batches(found: dict[str, Ranks]) -> None:
    assert_complete(found["molecules, uneven"], in_step=False)


def test_split_batches(found: dict[str, Ranks]) -> None:
    assert_complete(found["molecules, split"], repeated=-N % BATCH)
    assert "must have a `batch_size` attribute" in error_of(found["budget, split"])


def test_a_loader_knows_the_ranks(found: dict[str, Ranks]) -> None:
    assert_complete(found["loader_molecules"], repeated=1)
    assert_complete(found["loader_shuffle"], repeated=N)


@pytest.mark.parametrize("name", ["molecules", "budget"])
def test_dispatching_is_refused(found: dict[str, Ranks], name: str) -> None:
    error = error_of(found[f"{name}, dispatched"])
    assert error.startswith("ValueError: dispatch_batches: expected False, got True")


def test_ranks_given_twice_are_refused(found: dict[str, Ranks]) -> None:
    error = error_of(found["explicit"])
    assert "deals to the ranks itself: expected neither rank nor num_replicas" in error
