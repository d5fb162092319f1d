"""The example notebooks: stored without outputs, and every cell runs."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def test_there_are_some() -> None:
    assert len(NOTEBOOKS) >= 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert {*notebook.metadata} == {"kernelspec", "language_info"}
    for cell in notebook.cells:
        assert cell.metadata == {}
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.exhaustive] * (not path.stem.startswith("3")))
        for path in NOTEBOOKS
    ],
    ids=lambda path: path.stem,
)
def test_every_cell_runs(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "TMPDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute()
    outputs = [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs]
    text = " ".join(o.text for o in outputs if o.output_type == "stream")
    html = [o.data["text/html"] for o in outputs if "text/html" in o.get("data", {})]
    shown = {
        "1_look_at_a_data_set": r"0 structures are in both",
        "2_train_a_potential": r"this potential +[\d.]+ +[\d.]+",
        "3_feature_caches": r"forces: [\d.]+ eV/Å",
    }
    assert re.search(shown[path.stem], text), text
    assert any('class="apt' in one for one in html)
    assert "Traceback" not in text
    if path.stem == "3_feature_caches":  # shows its progress
        widget = "application/vnd.jupyter.widget-view+json"
        assert any(widget in output.get("data", {}) for output in outputs)
