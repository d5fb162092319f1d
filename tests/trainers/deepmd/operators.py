"""Imports DeePMD-kit without its compiled operators, which are for torch 2.11.

They serve compressed models and domains of MPI, not training; without the file, DeePMD-kit itself
goes without them.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import deepmd.env

deepmd.env.SHARED_LIB_DIR = Path(__file__).parent / "none"
deepmd.env.GLOBAL_CONFIG["cibuildwheel"] = "0"

if __name__ == "__main__":  # runs another script
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
