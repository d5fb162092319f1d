"""Writes what is stored in this folder, or prints what is read in some cases.

    python tests/golden/make_golden.py [CASE...]

Without cases it writes ``golden.json``, a digest for each case, and ``signatures.txt``. With cases
it prints their descriptions: print them at two commits to see what differs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden import signatures
from golden.cases import CASES
from golden.description import GOLDEN, digest_of, text_of


def main(names: list[str]) -> None:
    """Prints the cases of these names; without names, writes all files."""
    if names:
        for name in names:
            print(text_of(CASES[name]()), end="")
        return
    stored = {name: digest_of(read()) for name, read in CASES.items()}
    (GOLDEN / "golden.json").write_text(json.dumps(stored, indent=0) + "\n")
    (GOLDEN / "signatures.txt").write_text("\n".join(signatures.public_signatures()) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
