"""Steps of VASP whose electronic iterations did not converge, which ASE reads."""

from __future__ import annotations

import re

_LIMIT = re.compile(rb'(?:NELM\s*=|name="NELM">)\s*(\d+)')
_ITERATION = re.compile(rb"Iteration\s+(\d+)\(\s*(\d+)\)")


def unconverged_steps(path: str, ase_format: str) -> list[int]:
    """Finds the ionic steps that stopped at the largest number of electronic iterations.

    In an ``OUTCAR`` these are steps with NELM iterations and no line that EDIFF is reached, or with
    one that it was not; in a ``vasprun.xml``, which has no such line, steps with NELM iterations.

    Args:
        path: the file, plain or compressed.
        ase_format: ASE's name of its format.

    Returns:
        Numbers of the steps, from 0; empty for files of other programs.
    """
    from ase.io.formats import open_with_compression

    if ase_format not in ("vasp-out", "vasp-xml"):
        return []
    limit = 0
    found: list[int] = []
    step, n_iterations, is_reached, is_missed = 0, 0, False, False
    with open_with_compression(path, "rb") as file:
        for line in file:
            if not limit and (stated := _LIMIT.search(line)):
                limit = int(stated[1])
            n_iterations += line.count(b"<scstep>")
            if iteration := _ITERATION.search(line):
                n_iterations = int(iteration[2])
            is_reached |= b"EDIFF is reached" in line
            is_missed |= b"EDIFF was not reached" in line
            if b"</calculation>" in line or b"FREE ENERGIE OF THE ION-ELECTRON SYSTEM" in line:
                if is_missed or (0 < limit <= n_iterations and not is_reached):
                    found.append(step)
                step, n_iterations, is_reached, is_missed = step + 1, 0, False, False
    return found
