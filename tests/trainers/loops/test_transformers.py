"""The page on transformers' Trainer, as it is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pages import blocks_of

import atompack_torch as apt

pytest.importorskip("transformers")


@pytest.mark.filterwarnings("ignore")
def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with apt.AtpWriter("train.atp") as writer:
        for k in range(40):
            n = 4 + k % 12
            writer.write(apt.Molecule(np.zeros((n, 3)), [6] * n, energy=float(k)))
    first, second = blocks_of("transformers", "text")
    seen: list[int] = []
    names: dict[str, object] = {"__name__": "page"}
    exec(first, names)
    whole = names["trainer"]().loader  # type: ignore[operator]
    epochs = [[k for b in whole for k in b.index.tolist()] for _ in range(2)]

    trainer = names["MoleculeTrainer"]
    loss = trainer.compute_loss  # type: ignore[attr-defined]

    def noting(self: object, model: object, batch: apt.MoleculeBatch, **options: object) -> object:
        seen.extend(batch.index.tolist())
        return loss(self, model, batch, **options)

    trainer.compute_loss = noting  # type: ignore[attr-defined]
    exec(second, names)
    resumed = names["resumed"]
    assert seen == [*epochs[0][-len(seen) + 40 :], *epochs[1]]
    assert 0 < len(seen) - 40 < 40
    assert resumed.state.global_step == 2 * len(whole)  # type: ignore[attr-defined]
