"""The core as a library for programs in C++, as ``examples/cpp`` uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

import atompack_torch as apt

ROOT = Path(__file__).parents[2]
CMAKE = Path(sys.executable).with_name("cmake")


def test_a_program_reads_a_file(tmp_path: Path) -> None:
    energies = [-1.25, 1 / 3, float("nan")]
    with apt.AtpWriter(tmp_path / "a.atp", codec="zstd") as writer:
        for n_atoms, energy in enumerate(energies, start=1):
            numbers = torch.ones(n_atoms, dtype=torch.int64)
            writer.write(apt.Molecule(torch.zeros(n_atoms, 3), numbers, energy=energy))

    prefix, build = tmp_path / "prefix", tmp_path / "build"
    package = ["--component", "development", "--prefix", prefix]
    run(CMAKE, "--install", ROOT / "build" / "package", *package)
    run(CMAKE, "-S", ROOT / "examples" / "cpp", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run(CMAKE, "--build", build)

    printed = run(build / "read_atp", tmp_path / "a.atp").split()
    assert printed[::2] == ["1", "2", "3"]
    np.testing.assert_array_equal(np.array(printed[1::2], np.float64), energies)

    (tmp_path / "b.atp").write_bytes(b"ATPK")
    refused = subprocess.run(
        [build / "read_atp", tmp_path / "b.atp"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "b.atp: " in refused.stderr


def run(*command: str | Path) -> str:
    """What the program prints."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
