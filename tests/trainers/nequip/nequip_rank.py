"""One rank of ``nequip-train``: writes which molecules came."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from nequip.scripts import train
from nequip_cases import Notes


def main(folder: str, out: str) -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    rank = os.environ.get("RANK", "0")
    sys.argv = ["nequip-train", "-cp", folder, "-cn", "config.yaml"]
    sys.argv.append(f"hydra.run.dir={folder}/out{rank}")
    train.main()
    (notes,) = Notes.made
    found = {"epochs": notes.epochs, "validated": notes.validated, "losses": notes.losses}
    Path(out).write_text(json.dumps(found | {"weights": notes.weights}))


if __name__ == "__main__":
    main(*sys.argv[1:])
