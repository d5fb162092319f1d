"""Blocks of code of the project's pages, how each is run, and what a reader has before them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
RUN = ("python", "pycon", "sh")  # languages of blocks that are run; others need a reason

# Visible sentences that say why a block is not run, or which test runs it.
REASON = re.compile(
    r"\bnot\s+run\b|\b(?:run|tried|built)\s+by\s+`?(?:tests/|make\s+(?:test|demo|bench|docs))"
)
# The same for all blocks of a page, in the paragraphs before its first section.
PAGE_REASON = re.compile(r"\b(?:blocks|code|commands) (?:on|of) this page\b[^.]*")

# What the reader of a page has before its first block: files, and names like `model`.
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

def extended_xyz(path, prefix="", n=70):
    head = f"Properties=species:S:1:pos:R:3:{prefix}forces:R:3 {prefix}energy=-1"
    open(path, "w").write(f"1\\n{head}\\nH 0 0 0 0 0 0\\n" * n)
"""
TRAIN = 'molecules("train.atp", 400)'
ALLOYS = 'molecules("alloys.atp", 50)'
BEFORE = {
    "README.md": 'extended_xyz("train.xyz")\nextended_xyz("mace.xyz", "REF_")',
    "docs/index.md": 'extended_xyz("train.xyz")',
    "docs/atlas_stores.md": """
import pathlib, xarray
pathlib.Path("casts").mkdir()
for name in ("a", "b"):
    xarray.Dataset({"t": ("depth", np.arange(5.0))}).to_netcdf(f"casts/{name}.nc")
xarray.Dataset({"t": (("y", "x"), np.ones((4, 4)))}).to_zarr("grid.zarr")
""",
    "docs/batches.md": TRAIN,
    "docs/feature_caches.md": TRAIN,
    "docs/larger_than_memory.md": TRAIN,
    "docs/many_machines.md": f'{ALLOYS}\napt.convert("alloys.atp", "train", part=(0, 1))',
    "docs/notebooks.md": ALLOYS,
    "docs/open_what_you_have.md": 'extended_xyz("train.xyz")\nextended_xyz("mace.xyz", "REF_")',
    "docs/reference_energies.md": ALLOYS,
    "docs/reports.md": f"""
{ALLOYS}
for name in ("train", "test"):
    apt.convert("alloys.atp", f"{{name}}.xyz", progress=False)
descriptor = apt.ChebyshevDescriptor(["Cu", "Au"], 4, 4.0, 2, 3.0)
apt.build_cache(apt.AtpDataset("alloys.atp"), descriptor, "water.h5", progress=False)
""",
    "docs/resident.md": TRAIN,
    "docs/resuming.md": TRAIN,
    "docs/several_gpus.md": TRAIN,
    "docs/sources/converting_back.md": 'molecules("a.atp", 20)',
    "docs/training.md": """
for name, n in (("train", 400), ("bulk", 50), ("surfaces", 30)):
    molecules(f"{name}.atp", n)
with apt.ShardWriter("train", 300, 10) as writer:
    for i in range(600):
        writer.write({"image": np.full((4, 4), i % 256, np.uint8), "label": i})
model = torch.nn.Flatten()
""",
    "docs/writing.md": """
from ase.build import bulk
atoms = bulk("Cu")
r = np.random.default_rng(0).normal(size=(4, 3, 3)).astype(np.float32)
z = np.array([8, 1, 1])
e, f = np.zeros(4, np.float32), np.zeros((4, 3, 3), np.float32)
""",
}


@dataclass(frozen=True)
class Block:
    """A block of code of a page.

    Attributes:
        line: Number of the line after its opening fence, from 1.
        language: Word after the fence; empty without one, and "indented" without a fence.
        code: Its lines.
        section: All text between the headings around it, without code.
    """

    line: int
    language: str
    code: str
    section: str


def blocks_of(markdown: str) -> list[Block]:
    """Returns the blocks of code of a page, in order."""
    found: list[tuple[int, str, list[str], int]] = []
    sections, fence, previous = [""], "", ""
    for number, line in enumerate(markdown.splitlines(), 1):
        opening = re.match(r"(`{3,}|~{3,})(.*)", line)
        if fence:
            if line.rstrip() == fence:
                fence = ""
            else:
                found[-1][2].append(line)
        elif opening:
            fence = opening[1]
            found.append((number + 1, opening[2].strip(), [], len(sections) - 1))
        elif line.startswith("    ") and not previous:
            found.append((number, "indented", [line], len(sections) - 1))
        elif line.startswith("#"):
            sections.append("")
        else:
            sections[-1] += line + "\n"
        # After a list, indented lines are its items' paragraphs.
        in_list = re.match(r"(\s*[-*]|\s*\d+\.) |    ", line) or (previous == "list" and not line)
        previous = "list" if in_list else line.strip()
    return [Block(line, word, "\n".join(code), sections[at]) for line, word, code, at in found]


def is_run(page: str, block: Block) -> bool:
    """Tells if `test_docs.py` runs a block; Python on trainers' pages needs their packages."""
    languages = ("sh",) if page.startswith("docs/trainers/") else RUN
    return block.language in languages


def unexplained(page: str, markdown: str) -> list[str]:
    """Blocks of a page that no test runs and for which its text gives no reason."""
    head = markdown.partition("\n## ")[0]
    for_all = PAGE_REASON.search(head)
    if for_all and REASON.search(for_all[0]):
        return []
    blocks = [b for b in blocks_of(markdown) if not is_run(page, b)]
    return [f"{b.line}: {b.language}" for b in blocks if not REASON.search(b.section)]


def pages() -> list[str]:
    """All pages of the site and of the repository's front, relative to the repository."""
    names = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
    found = [REPOSITORY / name for name in names] + sorted(REPOSITORY.glob("docs/**/*.md"))
    return [path.relative_to(REPOSITORY).as_posix() for path in found]
