"""What several sources of ``convert`` are tested with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atompack_torch as apt
from atompack_torch.batch.conversions import Parts
from atompack_torch.conversion import Report, convert
from atompack_torch.formats.records import columns_of

SYMBOLS = {1: "H", 8: "O", 26: "Fe"}

_PEAK = """
import sys
from pathlib import Path
from atompack_torch.conversion import convert
convert(sys.argv[1], sys.argv[2], mode="w", progress=False)
status = Path("/proc/self/status").read_text()
print(status.split("VmHWM:")[1].split()[0])
"""


def structures(sizes: list[int], seed: int = 0) -> list[dict[str, Any]]:
    """Random structures as dicts of arrays."""
    rng = np.random.default_rng(seed)
    return [
        {
            "numbers": rng.choice([1, 8, 26], n),
            "positions": rng.normal(size=(n, 3)),
            "cell": rng.normal(size=(3, 3)),
            "energy": float(rng.normal()),
            "forces": rng.normal(size=(n, 3)),
            "stress": (lambda a: a + a.T)(rng.normal(size=(3, 3))),
            "moments": rng.normal(size=n),
        }
        for n in sizes
    ]


def peak_of_conversion(source: Path) -> int:
    """kB of memory that a process takes at the most to convert a file."""
    command = [sys.executable, "-c", _PEAK, source, source.with_name("out.atp")]
    return int(subprocess.run(command, capture_output=True, check=True).stdout)


def converted(
    source: Path, content: bytes | None = None, **options: Any
) -> tuple[apt.AtpDataset, Report]:
    """Converts a file or folder, given its content perhaps, to ``made.atp`` next to it."""
    if content is not None:
        source.write_bytes(content)
    target = source.with_name("made.atp")
    report = convert(source, target, mode="w", progress=False, **options)
    return apt.AtpDataset(target), report


def assert_refused(source: Path, kind: type[Exception], message: str, **options: Any) -> None:
    """Asserts that converting ends in an error that names the source, and leaves nothing."""
    target = source.with_name("refused.atp")
    with pytest.raises(kind, match=message) as error:
        convert(source, target, progress=False, **options)
    assert str(source) in str(error.value)
    assert not target.exists()


def write_atp(path: Path, parts: list[Parts]) -> Path:
    """Writes molecules to an ``.atp`` file."""
    with apt.AtpWriter(path, mode="w") as writer:
        writer.write_columns(columns_of(parts))
    return path


def written_as(
    target: str, path: Path, *blocks: list[Parts], **options: Any
) -> tuple[Path, Report]:
    """Writes blocks of molecules to ``0.atp``, ``1.atp`` and so on, and these in another format."""
    sources = [write_atp(path.with_name(f"{i}.atp"), block) for i, block in enumerate(blocks)]
    return path, convert(sources, path, target=target, mode="w", progress=False, **options)
