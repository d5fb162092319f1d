"""Lightning's Trainer and Fabric on two ranks: every molecule once, other epochs, resuming."""

from __future__ import annotations

import pytest
from cases import BATCH, N
from runs import Ranks, assert_complete, epochs, error_of, start

pytest.importorskip("lightning")
pytestmark = pytest.mark.timeout(500)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ranks]:
    """What came of every case, on each rank."""
    return start(tmp_path_factory.mktemp("lightning"), "lightning_rank.py")


PADDED = ["molecules", "blocks", "plain", "loader_molecules", "molecules, in a hook"]
PADDED += ["molecules, own", "loader_molecules, reload", "loader_molecules, resumed"]
PADDED += ["molecules, fabric"]
EXACT = ["loader_budget", "budget, own", "budget, own, in a hook", "budget, reload"]
EXACT += ["loader_budget, reload", "loader_budget, resumed", "budget, fabric"]


@pytest.mark.parametrize("name", PADDED)
def test_padded_to_equal_ranks(found: dict[str, Ranks], name: str) -> None:
    assert_complete(found[name], repeated=1)


@pytest.mark.parametrize("name", EXACT)
def test_every_molecule_once(found: dict[str, Ranks], name: str) -> None:
    assert_complete(found[name])


@pytest.mark.parametrize("name", ["molecules, predict", "budget, predict"])
def test_predictions(found: dict[str, Ranks], name: str) -> None:
    assert_complete(found[name], repeated=1 if name == "molecules, predict" else 0)


def test_a_replaced_batch_sampler_is_refused(found: dict[str, Ranks]) -> None:
    assert "use_distributed_sampler=False" in error_of(found["budget"])


@pytest.mark.parametrize("name", ["molecules, overfit", "budget, overfit"])
def test_overfitting_keeps_its_batches(found: dict[str, Ranks], name: str) -> None:
    ranks = found[name]
    first, second = epochs(ranks)
    assert first == second
    assert len(set(first)) == len(first) > 2 * BATCH


def test_overfitting_wants_a_dataloader(found: dict[str, Ranks]) -> None:
    assert "needs to subclass `torch.utils.data.DataLoader`" in error_of(
        found["loader_budget, overfit"]
    )


@pytest.mark.parametrize("name", ["", ", reload", ", resumed"])
def test_a_loader_that_shuffles_by_itself_warns(found: dict[str, Ranks], name: str) -> None:
    """Each rank gets everything, in a different order in each epoch."""
    ranks = found[f"loader_shuffle{name}"]
    assert_complete(ranks, repeated=N)
    for rank in ranks:
        warned = rank["warnings"]
        assert warned
        assert all("shuffle=True: each of the 2 ranks gets the whole" in text for text in warned)
