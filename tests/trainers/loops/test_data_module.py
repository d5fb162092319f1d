"""The data module of Lightning on one rank and two, with the defaults of its Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from cases import BATCH, MAX_ATOMS, N, write
from data_module_rank import STOP, Model
from pages import LIGHTNING, run_blocks
from runs import Ranks, assert_complete, epochs, start
from structures import CUTOFF, structures, write_atp

import atompack_torch as apt
from atompack_torch.trainers.lightning import DataModule

pytestmark = pytest.mark.timeout(500)
BUDGETS = ["atoms", "molecules"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data_module")


@pytest.fixture(scope="module")
def two(folder: Path) -> dict[str, Ranks]:
    """What came of every case on two ranks."""
    return start(folder, "data_module_rank.py", "2", "all")


@pytest.fixture(scope="module")
def one(folder: Path, two: dict[str, Ranks]) -> dict[str, Ranks]:
    """What came of every case on one rank."""
    return start(folder, "data_module_rank.py", "1", "all", n_ranks=1)


@pytest.fixture(scope="module")
def rest(folder: Path, one: dict[str, Ranks]) -> dict[str, Ranks]:
    """What came on two ranks after the checkpoints of one."""
    return start(folder, "data_module_rank.py", "2", "rest")


@pytest.mark.parametrize("name", [*BUDGETS, "layout", "transform"])
def test_every_molecule_once_in_each_epoch(two: dict[str, Ranks], name: str) -> None:
    assert len(epochs(two[name])) == 2
    assert_complete(two[name])


@pytest.mark.parametrize("name", BUDGETS)
def test_one_rank(one: dict[str, Ranks], name: str) -> None:
    assert len(epochs(one[name])) == 2
    assert_complete(one[name])


def test_an_epoch_may_have_more_batches_than_the_first(two: dict[str, Ranks]) -> None:
    assert_complete(two["varying"])
    first, second = (len(batches) for batches in two["varying"][0]["epochs"])
    assert first < second


@pytest.mark.parametrize("stage", ["validation", "test", "predictions"])
@pytest.mark.parametrize("name", BUDGETS)
def test_evaluation_is_complete(
    one: dict[str, Ranks], two: dict[str, Ranks], name: str, stage: str
) -> None:
    assert_complete(two[f"{name}, {stage}"])
    (in_order,) = epochs(one[f"{name}, {stage}"])
    assert in_order == list(range(N))


@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("n_ranks", [1, 2])
def test_resuming_inside_an_epoch(
    one: dict[str, Ranks], two: dict[str, Ranks], name: str, n_ranks: int
) -> None:
    """The batches that would have come, bit for bit."""
    found = one if n_ranks == 1 else two
    for whole, resumed in zip(found[name], found[f"{name}, resumed"], strict=True):
        assert resumed["epochs"] == [whole["epochs"][0][STOP:], whole["epochs"][1]]


@pytest.mark.parametrize("name", BUDGETS)
def test_resuming_on_fewer_ranks(one: dict[str, Ranks], two: dict[str, Ranks], name: str) -> None:
    _assert_rest(two[name], one[f"{name}, resumed from 2 ranks"])


@pytest.mark.parametrize("name", BUDGETS)
def test_resuming_on_more_ranks(one: dict[str, Ranks], rest: dict[str, Ranks], name: str) -> None:
    _assert_rest(one[name], rest[name])


@pytest.mark.parametrize("name", ["smaller", "larger"])
@pytest.mark.parametrize("n_ranks", [1, 2])
def test_resuming_with_other_batch_sizes(
    one: dict[str, Ranks], two: dict[str, Ranks], name: str, n_ranks: int
) -> None:
    found = one if n_ranks == 1 else two
    _assert_rest(found["molecules"], found[name])


def _assert_rest(stopped: Ranks, resumed: Ranks) -> None:
    """The molecules of the epoch that was stopped are those before and after, once each."""
    before = [number for rank in stopped for batch in rank["epochs"][0][:STOP] for number in batch]
    rest, following = epochs(resumed)
    assert rest
    assert sorted(before + rest) == list(range(N))
    assert sorted(following) == list(range(N))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "data.atp")
    return tmp_path / "data.atp"


def trainer(folder: Path, **options: Any) -> lightning.Trainer:
    return lightning.Trainer(default_root_dir=folder, **LIGHTNING, **options)


@pytest.mark.parametrize("budget", [{"max_atoms": MAX_ATOMS}, {"batch_size": BATCH}])
def test_batches_keep_their_limits(path: Path, budget: dict[str, int]) -> None:
    data = DataModule(path, **budget)
    data.setup("fit")
    for batch in data.train_dataloader():
        assert len(batch) <= BATCH if "batch_size" in budget else len(batch.positions) <= MAX_ATOMS


def test_data_sets_mixtures_and_lists(path: Path) -> None:
    """Each epoch of a mixture draws other molecules."""
    dataset = apt.AtpDataset(path)
    mixture = apt.MixtureDataset([dataset, dataset], weights=[3, 1], epoch=100)
    model = Model()
    data = DataModule(mixture, [[path, path]], batch_size=BATCH)
    trainer(path.parent, max_epochs=2, num_sanity_val_steps=0).fit(model, datamodule=data)
    first, second = ([n for batch in e for n in batch] for e in model.steps["train"].values())
    assert len(first) == len(second) == 100
    assert sorted(first) != sorted(second)
    assert [n for batch in model.steps["val"][1] for n in batch] == list(range(2 * N))


class Noting(Model):
    """Notes the molecules of each step, which of them have forces, and the edges."""

    def _note(self, stage: str, batch: Any) -> None:
        super()._note(stage, batch)
        rows = self.steps[f"{stage}, values"].setdefault(self.current_epoch, [])
        rows.append([batch.mask("forces").tolist(), batch.edge_index.tolist()])


def test_from_memory(tmp_path: Path) -> None:
    """The same batches, loaded once, with the forces that are chosen for each epoch."""
    path = write_atp(tmp_path / "data.atp", structures(20))
    found = []
    for resident in (False, True):
        data = DataModule(
            path,
            batch_size=4,
            resident=resident,
            neighbors=apt.NeighborList(CUTOFF),
            force_subset=apt.ForceSubset(0.5, resample=True),
        )
        model = Noting()
        model.steps["train, values"] = {}
        trainer(tmp_path, max_epochs=2).fit(model, datamodule=data)
        found.append(model.steps)
        assert isinstance(data.train_dataloader().dataset, apt.ResidentDataset) == resident
    assert found[0] == found[1]
    first, second = found[0]["train, values"].values()
    assert [masks for masks, _ in first] != [masks for masks, _ in second]


def test_from_memory_in_a_loop_of_ones_own(tmp_path: Path) -> None:
    """Each pass of a loader is the next epoch of what the dataset draws."""
    path = write_atp(tmp_path / "data.atp", structures(20))
    found = []
    for resident in (False, True):
        augment = apt.Augment(rotate="proper")
        data = DataModule(path, path, batch_size=20, resident=resident, augment=augment)
        data.setup("fit")
        loaders = data.train_dataloader(), data.val_dataloader()
        found.append([batch.positions for loader in loaders for _ in range(2) for batch in loader])
    for plain, from_memory in zip(*found, strict=True):
        assert torch.equal(plain, from_memory)
    assert not torch.equal(found[0][2], found[0][3])


def test_a_mixture_is_not_loaded_whole(path: Path) -> None:
    dataset = apt.AtpDataset(path)
    data = DataModule(apt.MixtureDataset([dataset, dataset]), batch_size=4, resident=True)
    data.setup("fit")
    with pytest.raises(TypeError, match="MixtureDataset of resident datasets"):
        data.train_dataloader()


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code, with a model that learns energies of atoms."""
    monkeypatch.chdir(tmp_path)
    write_atp(tmp_path / "train.atp", structures(20))
    write_atp(tmp_path / "val.atp", structures(4, seed=1))
    names = run_blocks("lightning", model=(model := Energies()))
    assert names["data"].trainer.current_epoch == 10
    assert len(model.losses) == 10
    assert model.losses[-1] < model.losses[0]


class Energies(lightning.LightningModule):
    """An energy for each element."""

    def __init__(self) -> None:
        super().__init__()
        self.atoms = torch.nn.Embedding(100, 1, dtype=torch.float64)
        self.losses: list[float] = []  # of validation, after each epoch

    def loss(self, batch: apt.MoleculeBatch) -> torch.Tensor:
        atoms = self.atoms(batch.atomic_numbers).squeeze(1)
        energies = atoms.new_zeros(len(batch)).index_add(0, batch.batch, atoms)
        return (energies - batch.energy).square().mean()

    def training_step(self, batch: apt.MoleculeBatch, number: int) -> torch.Tensor:
        return self.loss(batch)

    def validation_step(self, batch: apt.MoleculeBatch, number: int) -> None:
        if not self.trainer.sanity_checking:
            self.losses.append(float(self.loss(batch)))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.1)


def test_overfitting_keeps_its_batches(path: Path) -> None:
    model = Model()
    data = DataModule(path, path, batch_size=BATCH)
    trainer(path.parent, max_epochs=2, overfit_batches=3).fit(model, datamodule=data)
    first, second = model.steps["train"].values()
    assert first == second
    assert len(first) == 3


def test_a_batch_moves_in_one_transfer(path: Path) -> None:
    """Lightning moves batches by their own method, which moves the arena."""
    batch = apt.AtpDataset(path).batch(range(4))
    moved = DataModule(path, batch_size=4).transfer_batch_to_device(
        batch, torch.device("meta"), dataloader_idx=0
    )
    tensors = [value for value in dict(moved).values() if isinstance(value, torch.Tensor)]
    assert len({tensor.untyped_storage()._cdata for tensor in tensors}) == 1
    assert {tensor.device.type for tensor in tensors} == {"meta"}


@pytest.mark.parametrize("budget", [{}, {"max_atoms": 8, "batch_size": 8}])
def test_one_budget_is_wanted(budget: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="max_atoms and batch_size: expected one of them"):
        DataModule("train.atp", **budget)


def test_data_is_wanted(path: Path) -> None:
    with pytest.raises(ValueError, match="test: expected data, got None"):
        trainer(path.parent).test(Model(), datamodule=DataModule(path, batch_size=BATCH))
