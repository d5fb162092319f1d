"""Gets a data set from the Hugging Face hub; what was downloaded before is not again.

  atompack-torch hub pull me/alloys train
  atompack-torch hub pull me/alloys train --revision v2 --to data/
  atompack-torch hub pull --offline me/alloys train

Prints the path of the files, for `atompack-torch info` and `apt.open`.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._output import print_json
from atompack_torch.cli.hub._options import add_repository, hub_errors
from atompack_torch.errors import printable

NAME = "pull"
HELP = "get a data set from the hub"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_repository(parser, "folder or file in the repository (default: the only one)")
    parser.add_argument(
        "--to",
        dest="folder",
        metavar="FOLDER",
        help="put the files there, under their names in the repository (default: the local cache)",
    )
    parser.add_argument("--offline", action="store_true", help="use only what is there already")
    parser.add_argument("--force", action="store_true", help="download everything again")


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch import hub

    with hub_errors():
        path = hub.download(
            options.repository,
            options.name,
            options.revision,
            repo_type=options.repo_type,
            local_dir=options.folder,
            local_files_only=options.offline,
            force_download=options.force,
        )
    if options.json:
        print_json({"path": str(path)})
    else:
        print(printable(str(path)))
    return 0
