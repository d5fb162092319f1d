"""Makes a dataset of fcc alloys with labels from effective-medium theory, as one .atp file.

Pure elements, random alloys, cells with vacancies, and surfaces of Al, Ni, Cu, Pd, Ag, Pt and Au,
all strained and rattled. Energies (eV), forces (eV/Å) and stresses (eV/Å^3) come from ASE's EMT
calculator. The stress has ASE's sign, dE/dstrain per volume: negative in a compressed cell.
Surfaces, one molecule in ten, have none: it would depend on the thickness of the vacuum.

The same seed gives the same molecules on any number of processes.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from ase.build import bulk, fcc100, fcc110, fcc111, make_supercell
from ase.calculators.emt import EMT
from ase.data import atomic_numbers, reference_states

from atompack_torch import AtpWriter, Molecule

ELEMENTS = ("Al", "Ni", "Cu", "Pd", "Ag", "Pt", "Au")
LATTICE = {symbol: reference_states[atomic_numbers[symbol]]["a"] for symbol in ELEMENTS}  # Å
CUBIC_REPEATS = ((1, 1, 2), (1, 2, 2), (1, 2, 3), (2, 2, 2), (2, 2, 3))  # 8 to 48 atoms
PRIMITIVE_REPEATS = ((2, 2, 2), (2, 3, 3), (3, 3, 3), (3, 3, 4), (3, 4, 5))  # 8 to 60 atoms
KINDS = ("element", "alloy", "vacancy", "surface")
SHARES = (0.25, 0.45, 0.2, 0.1)
MAX_FORCE = 10.0  # eV/Å; a molecule with a larger one is drawn again


def draw_symbols(rng: np.random.Generator, n_elements: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws the elements of a molecule and their fractions."""
    return rng.choice(ELEMENTS, n_elements, replace=False), rng.dirichlet(np.ones(n_elements))


def build(rng: np.random.Generator, kind: str) -> Atoms:
    """Builds a molecule of 6 to 60 atoms at the composition's mean lattice constant."""
    symbols, shares = draw_symbols(rng, 1 if kind == "element" else int(rng.integers(1, 5)))
    a = float(np.dot([LATTICE[symbol] for symbol in symbols], shares))  # Vegard's law
    if kind == "surface":
        make = (fcc100, fcc110, fcc111)[rng.integers(3)]
        size = (int(rng.integers(2, 4)), int(rng.integers(2, 4)), int(rng.integers(3, 6)))
        atoms = make("Cu", size=size, a=a, vacuum=float(rng.uniform(5.0, 8.0)))
    else:
        cubic = bool(rng.integers(2))
        repeats = CUBIC_REPEATS if cubic else PRIMITIVE_REPEATS
        diagonal = rng.permutation(repeats[rng.integers(len(repeats))])
        atoms = make_supercell(bulk("Cu", "fcc", a=a, cubic=cubic), np.diag(diagonal))
    atoms.symbols[:] = rng.choice(symbols, len(atoms), p=shares)
    if kind == "vacancy":
        n_missing = int(rng.integers(1, 3))
        del atoms[rng.choice(len(atoms), n_missing, replace=False)]
    return atoms


def deform(rng: np.random.Generator, atoms: Atoms) -> None:
    """Strains the cell (by up to about 6 %, plus some shear) and displaces every atom."""
    strain = np.eye(3) * (1 + rng.uniform(-0.04, 0.06)) + rng.normal(0.0, 0.01, (3, 3))
    if not atoms.pbc.all():  # a slab is strained only in its plane
        strain[2], strain[:, 2] = (0, 0, 1), (0, 0, 1)
    atoms.set_cell(atoms.cell @ strain, scale_atoms=True)
    atoms.positions += rng.normal(0.0, rng.uniform(0.02, 0.15), atoms.positions.shape)


def label(seed: int, number: int) -> dict[str, Any]:
    """Makes molecule `number` with its labels, as the arguments of a Molecule."""
    rng = np.random.default_rng([seed, number])  # independent of the order of the work
    kind = str(rng.choice(KINDS, p=SHARES))
    forces = np.full((1, 3), np.inf)
    while np.abs(forces).max() > MAX_FORCE:
        atoms = build(rng, kind)
        deform(rng, atoms)
        # Positions are stored as float32, so the labels are those of the rounded positions.
        atoms.positions = positions = atoms.positions.astype(np.float32)
        atoms.calc = EMT()
        forces = atoms.get_forces()
    return {
        "positions": positions,
        "atomic_numbers": atoms.numbers,
        "energy": float(atoms.get_potential_energy()),
        "forces": forces.astype(np.float32),
        "cell": np.array(atoms.cell),
        "pbc": tuple(bool(periodic) for periodic in atoms.pbc),
        "stress": None if kind == "surface" else atoms.get_stress(voigt=False),
        "name": f"{kind} {atoms.get_chemical_formula()}",
    }


def report(items: Iterator[dict[str, Any]], total: int) -> Iterator[dict[str, Any]]:
    """Yields the items and updates a line of progress (without a terminal: only at the end)."""
    start = shown = time.perf_counter()
    for done, item in enumerate(items, 1):
        now = time.perf_counter()
        if done == total or (sys.stderr.isatty() and now - shown > 0.2):
            rate = done / (now - start)
            left = (total - done) / rate
            end = "\n" if done == total else "\r"
            text = f"{done}/{total} molecules, {rate:.0f} per second, {left:.0f} s left "
            print(text, end=end, file=sys.stderr, flush=True)
            shown = now
        yield item


def write(path: Path, molecules: Iterator[dict[str, Any]]) -> None:
    """Writes the file; it replaces an old one when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with AtpWriter(path, mode="w") as writer:
        for molecule in molecules:
            writer.write(Molecule(**molecule))


def ensure(path: Path, molecules: int, seed: int = 0) -> Path:
    """Makes the file unless it exists, in a separate process: one with threads, such as torch's,
    should not fork.
    """
    if not path.exists():
        options = ["--molecules", str(molecules), "--seed", str(seed)]
        subprocess.run([sys.executable, __file__, str(path), *options], check=True)
    return path


def main() -> None:
    """Makes the dataset requested on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path, help="the .atp file to write (replaced if it exists)")
    parser.add_argument(
        "--molecules", type=int, default=4800, help="how many (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of all random numbers (default: %(default)s)"
    )
    cores = len(os.sched_getaffinity(0))
    parser.add_argument(
        "--processes", type=int, default=cores, help="(default: all cores, %(default)s)"
    )
    options = parser.parse_args()

    with get_context("fork").Pool(options.processes) as pool:
        molecules = pool.imap(partial(label, options.seed), range(options.molecules), chunksize=16)
        write(options.path, report(molecules, options.molecules))
    print(f"{options.path}: {options.path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
