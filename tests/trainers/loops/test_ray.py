"""Ray Train on two workers: every molecule once, other epochs, or an error that says what to do."""

from __future__ import annotations

import pytest
from cases import N
from runs import Ranks, assert_complete, error_of, start_alone

pytest.importorskip("ray")
pytestmark = pytest.mark.timeout(500)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ranks]:
    """What came of every case, on each worker."""
    return start_alone(tmp_path_factory.mktemp("ray"), "ray_run.py")


NAMES = ["molecules", "blocks", "plain", "molecules, own sampler", "blocks, own sampler"]
NAMES += ["loader_molecules", "loader_molecules, own sampler", "loader_molecules, alone"]
NAMES += ["molecules, not counted"]


@pytest.mark.parametrize("name", NAMES)
def test_padded_to_equal_ranks(found: dict[str, Ranks], name: str) -> None:
    assert_complete(found[name], repeated=1)


NAMES = ["budget, own sampler", "loader_budget, own sampler", "loader_budget, alone"]
NAMES += ["budget, not counted"]


@pytest.mark.parametrize("name", NAMES)
def test_every_molecule_once(found: dict[str, Ranks], name: str) -> None:
    assert_complete(found[name])


def test_a_failure_inside_an_epoch(found: dict[str, Ranks]) -> None:
    """Ray starts the workers again, which continue from the checkpoint that they reported."""
    name = "loader_budget, failed"
    assert_complete(found[name])
    whole = [rank["epochs"] for rank in found["loader_budget, alone"]]
    assert [rank["epochs"] for rank in found[name]] == whole


def test_a_loader_that_shuffles_by_itself(found: dict[str, Ranks]) -> None:
    assert_complete(found["loader_shuffle, own sampler"], repeated=N)


def test_a_replaced_batch_sampler_is_refused(found: dict[str, Ranks]) -> None:
    error = error_of(found["budget"])
    assert "the loader has lost its batch sampler" in error
    assert "add_dist_sampler=False" in error


@pytest.mark.parametrize("name", ["loader_budget", "loader_shuffle"])
def test_a_loader_is_no_dataloader(found: dict[str, Ranks], name: str) -> None:
    assert "needs a DataLoader; a Loader needs no preparation" in error_of(found[name])
