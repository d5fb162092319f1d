"""Results of VASP, which ASE reads: tiny files written by hand."""

from __future__ import annotations

from pathlib import Path

import ase.units
import numpy as np
import pytest
from reference.foreign import assert_refused, converted

import atompack_torch as apt

CELL = "<v>5 0 0</v><v>0 5 0</v><v>0 0 5</v>"
ENERGIES = """<energy><i name="e_fr_energy">-6.5</i><i name="e_wo_entrp">-6.25</i>
<i name="e_0_energy">-6.375</i></energy>"""


def structure(z: float) -> str:
    return f"""<structure><crystal><varray name="basis">{CELL}</varray></crystal>
<varray name="positions"><v>0 0 0</v><v>0.5 0.5 {z}</v></varray></structure>"""


def step(z: float) -> str:
    return f"""<calculation><scstep>{ENERGIES}</scstep>{structure(z)}
<varray name="forces"><v>0 0 0.25</v><v>0 0 -0.25</v></varray>
<varray name="stress"><v>10 1 3</v><v>1 20 2</v><v>3 2 30</v></varray>{ENERGIES}</calculation>
"""


XML = f"""<?xml version="1.0" encoding="ISO-8859-1"?>
<modeling><generator><i name="program" type="string">vasp </i></generator>
<kpoints><varray name="kpointlist"><v>0 0 0</v></varray>
<varray name="weights"><v>1</v></varray></kpoints><parameters></parameters>
<atominfo><atoms>2</atoms><types>2</types><array name="atoms"><dimension dim="1">ion</dimension>
<set><rc><c>Na</c><c>1</c></rc><rc><c>Cl</c><c>2</c></rc></set></array></atominfo>
{structure(0.5).replace("<structure>", '<structure name="initialpos">')}
{step(0.5)}{step(0.6)}</modeling>
"""
HEAD = """ vasp.6.3.2 27Jun22 complex

 POTCAR:    PAW_PBE Na 08Apr2002
 POTCAR:    PAW_PBE Cl 06Sep2000
 POTCAR:    PAW_PBE Na 08Apr2002
 POTCAR:    PAW_PBE Cl 06Sep2000
   ions per type =               1   1
"""
STEP = """--------------------------------------- Iteration      {number}(   1)  -----------
  FORCE on cell =-STRESS in cart. coord.  units (eV):
  Direction    XX          YY          ZZ          XY          YZ          ZX
  Total       0.78019     1.56038     2.34057     0.07802     0.15604     0.23406
  in kB      10.00000    20.00000    30.00000     1.00000     2.00000     3.00000
      direct lattice vectors                 reciprocal lattice vectors
     5.000000000  0.000000000  0.000000000     0.200000000  0.000000000  0.000000000
     0.000000000  5.000000000  0.000000000     0.000000000  0.200000000  0.000000000
     0.000000000  0.000000000  5.000000000     0.000000000  0.000000000  0.200000000

 POSITION                                       TOTAL-FORCE (eV/Angst)
 -----------------------------------------------------------------------------------
      0.00000      0.00000      0.00000         0.000000      0.000000      0.250000
      2.50000      2.50000      {z:.5f}         0.000000      0.000000     -0.250000
 -----------------------------------------------------------------------------------
  FREE ENERGIE OF THE ION-ELECTRON SYSTEM (eV)
  ---------------------------------------------------
  free  energy   TOTEN  =        -6.50000000 eV

  energy  without entropy=       -6.25000000  energy(sigma->0) =       -6.37500000
"""
OUTCAR = HEAD + STEP.format(number=1, z=2.5) + STEP.format(number=2, z=3.0)


@pytest.mark.parametrize(("name", "text"), [("vasprun.xml", XML), ("OUTCAR", OUTCAR)])
def test_all_steps_come_over(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    batch = converted(tmp_path / name)[0][:]
    assert len(batch) == 2
    assert batch.atomic_numbers.tolist() == [11, 17] * 2
    assert np.allclose(batch.positions[1::2, 2], [2.5, 3.0])
    assert batch.energy.tolist() == [-6.375] * 2  # ASE takes that extrapolated to no smearing
    assert batch["free_energy"].tolist() == [-6.5] * 2
    assert batch.forces[:2].tolist() == [[0, 0, 0.25], [0, 0, -0.25]]
    assert batch.pbc.all()
    # The sign of VASP is that of a pressure.
    stress = np.array([[10, 1, 3], [1, 20, 2], [3, 2, 30]]) * -0.1 * ase.units.GPa
    assert np.allclose(batch.stress[0], stress, rtol=1e-12)


def outcar(*ends: tuple[int, str]) -> str:
    """Steps of so many iterations, with a line after the last of them."""
    steps = ""
    for number, (n, line) in enumerate(ends, 1):
        text = STEP.format(number=number, z=2.5).replace("(   1)", f"({n:4})")
        steps += text.replace("  FORCE on", f"{line}\n  FORCE on", 1)
    return HEAD + "   NELM   =      4;   NELMIN=  2; NELMDL= -5     # of ELM steps\n" + steps


REACHED = "------------------------ aborting loop because EDIFF is reached ----------"
MISSED = "------------------------ aborting loop EDIFF was not reached (unconverged)"


@pytest.mark.parametrize(
    ("name", "text", "steps"),
    [
        ("OUTCAR", outcar((4, REACHED), (4, ""), (3, ""), (2, MISSED)), "1, 3"),
        ("OUTCAR", outcar((4, REACHED), (3, REACHED)), None),
        ("vasprun.xml", XML, None),
        (
            "vasprun.xml",
            XML.replace("<parameters>", '<parameters><i type="int" name="NELM">    2</i>').replace(
                "</calculation>", f"<scstep>{ENERGIES}</scstep>\n</calculation>", 1
            ),
            "0",
        ),
    ],
)
def test_steps_that_did_not_converge(
    tmp_path: Path, name: str, text: str, steps: str | None
) -> None:
    (tmp_path / name).write_text(text)
    _, report = converted(tmp_path / name)
    found = [warning for warning in report.warnings if "(NELM)" in warning]
    assert [warning.rpartition(": ")[2] for warning in found] == ([steps] if steps else [])


def test_a_vasprun_that_is_cut(tmp_path: Path) -> None:
    (tmp_path / "vasprun.xml").write_text(XML[: len(XML) // 3])
    message = r"vasprun\.xml: ASE's reader for vasp-xml could not read it: .*dpdata"
    assert_refused(tmp_path / "vasprun.xml", apt.UnsupportedFormatError, message)


def test_an_outcar_of_a_run_that_goes_on(tmp_path: Path) -> None:
    """ASE reads the complete steps of an OUTCAR and does not mention the rest."""
    (tmp_path / "OUTCAR").write_text(OUTCAR[:-500])
    assert len(converted(tmp_path / "OUTCAR")[0]) == 1
