"""README and docs: every block of Python in them runs as it is written, from top to bottom."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

# What the reader of a document has before its first block: files, and names like `model`.
COMMON = """
import numpy as np, torch
import atompack_torch as apt

def molecules(path, n):
    rng = np.random.default_rng(n)
    with apt.AtpWriter(path) as writer:
        for atoms in (5, 9, 14):
            writer.write_arrays(
                positions=rng.uniform(0, 6, (n, atoms, 3)).astype(np.float32),
                atomic_numbers=rng.choice([29, 79], (n, atoms)).astype(np.uint8),
                energy=rng.normal(size=n),
                forces=rng.normal(size=(n, atoms, 3)).astype(np.float32),
                cell=np.tile(np.eye(3) * 7.0, (n, 1, 1)),
                pbc=np.ones((n, 3), bool),
                stress=rng.normal(size=(n, 3, 3)),
            )
"""
BEFORE = {
    "README.md": """
molecules("alloys.atp", 50)
dataset = apt.AtpDataset("alloys.atp")
(atoms,) = dataset[:1].to_ase()
r = np.random.default_rng(0).normal(size=(4, 3, 3)).astype(np.float32)
z = np.array([8, 1, 1])
e, f = np.zeros(4, np.float32), np.zeros((4, 3, 3), np.float32)
""",
    "docs/index.md": 'molecules("alloys.atp", 50)',
    "docs/atlas_stores.md": "",
    "docs/choosing_a_format.md": "",
    "docs/many_machines.md": 'molecules("alloys.atp", 50)',
    "docs/open_what_you_have.md": """
for name, prefix in (("train", ""), ("mace", "REF_")):
    head = f"Properties=species:S:1:pos:R:3:{prefix}forces:R:3 {prefix}energy=-1"
    open(f"{name}.xyz", "w").write(f"1\\n{head}\\nH 0 0 0 0 0 0\\n" * 70)
""",
    "docs/notebooks.md": 'molecules("alloys.atp", 50)',
    "docs/reports.md": 'molecules("alloys.atp", 50)',
    "docs/tutorial.md": "",
    "docs/missing_labels.md": "",
    "docs/converting.md": "",
    "docs/reference_energies.md": 'molecules("alloys.atp", 50)',
    "docs/batches.md": 'molecules("train.atp", 400)',
    "docs/several_gpus.md": 'molecules("train.atp", 400)',
    "docs/resuming.md": 'molecules("train.atp", 400)',
    "docs/larger_than_memory.md": 'molecules("train.atp", 400)',
    "docs/feature_caches.md": 'molecules("train.atp", 400)',
    "docs/resident.md": 'molecules("train.atp", 400)',
    "docs/operators.md": "",
    "docs/training.md": """
for name, n in (("train", 400), ("bulk", 50), ("surfaces", 30)):
    molecules(f"{name}.atp", n)
with apt.ShardWriter("train", 300, 10) as writer:
    for i in range(600):
        writer.write({"image": np.full((4, 4), i % 256, np.uint8), "label": i})
model = torch.nn.Flatten()
""",
}
# Pages whose commands are run too, in their place between the blocks.
RUN_COMMANDS = ("docs/converting.md",)

RUNNER = """
import shlex
import subprocess
import sys
from pathlib import Path

document, before = sys.argv[1:]
names = {"__name__": "__main__"}
exec(compile(before, "what the reader has", "exec"), names)
lines, block = Path(document).read_text().splitlines(), None
for number, line in enumerate(lines, 1):
    if line == "```python":
        block = number, []
    elif line.startswith("atompack-torch ") and document.endswith(COMMANDS):
        command = [sys.executable, "-m", "atompack_torch", *shlex.split(line, comments=True)[1:]]
        subprocess.run(command, check=True)
    elif line == "```" and block:
        # Where they stand in the document is where an error is reported.
        source = "\\n" * block[0] + "\\n".join(block[1])
        exec(compile(source, document, "exec"), names)
        block = None
    elif block:
        block[1].append(line)
"""


def documents() -> list[str]:
    """Those with Python in them; pages on a trainer are tested where that is installed."""
    pages = [page for page in REPOSITORY.glob("docs/**/*.md") if page.parent.name != "trainers"]
    found = [REPOSITORY / "README.md", *sorted(pages)]
    with_code = [path for path in found if "```python\n" in path.read_text()]
    return [str(path.relative_to(REPOSITORY)) for path in with_code]


@pytest.mark.parametrize("document", documents())
def test_blocks_run_as_written(document: str, tmp_path: Path) -> None:
    torchrun = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            RUNNER.replace("COMMANDS", repr(RUN_COMMANDS)),
            REPOSITORY / document,
            COMMON + BEFORE[document],
        ],
        cwd=tmp_path,
        env={**os.environ, **torchrun, **where},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


PATH = re.compile(r"`((?:csrc|tests|atompack_torch|examples|docs|benchmarks)/[\w./]+)(?:, \w+)*`")


def pages_with_paths() -> list[str]:
    """Pages that name files of the source tree."""
    found = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]
    found += [*sorted(REPOSITORY.glob("docs/**/*.md")), *sorted(REPOSITORY.glob("csrc/**/*.md"))]
    named = [page for page in found if PATH.search(page.read_text())]
    return [str(page.relative_to(REPOSITORY)) for page in named]


def missing_files(page: str) -> list[str]:
    """Paths in a page that name no file or folder, with or without a suffix."""
    named = [match[1] for match in PATH.finditer(page)]
    return [n for n in named if "NAME" not in n and not any(REPOSITORY.glob(f"{n.rstrip('/')}*"))]


@pytest.mark.parametrize("page", pages_with_paths())
def test_named_files_exist(page: str) -> None:
    assert missing_files((REPOSITORY / page).read_text()) == []


def test_missing_files_are_found() -> None:
    page = "See `csrc/plan/type_rules.cpp`, `csrc/formats/NAME/` and `csrc/absent/of_this, other`."
    assert missing_files(page) == ["csrc/absent/of_this"]
