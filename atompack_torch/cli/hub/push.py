"""Verifies a data set and sends it to the Hugging Face hub, in one commit.

  atompack-torch hub push train/ me/alloys train
  atompack-torch hub push water.atp me/water --message "Add water"
  atompack-torch hub push train/ me/alloys train --replace

Prints the address of what was uploaded, for `apt.open`.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._output import print_json
from atompack_torch.cli.hub._options import add_repository, hub_errors
from atompack_torch.errors import printable

NAME = "push"
HELP = "verify a data set and send it to the hub"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "path", metavar="PATH", help="a folder of .atp files, an .atp file or a feature cache"
    )
    add_repository(parser, "folder or file in the repository (default: its root, or the same name)")
    parser.add_argument("--message", metavar="TEXT", help="message of the commit")
    parser.add_argument("--private", action="store_true", help="make a new repository private")
    parser.add_argument(
        "--no-create", action="store_true", help="do not create a repository that does not exist"
    )
    parser.add_argument(
        "--replace", action="store_true", help="remove shards that PATH does not have, too"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch import hub

    with hub_errors():
        url = hub.upload(
            options.path,
            options.repository,
            options.name,
            options.revision,
            repo_type=options.repo_type,
            message=options.message,
            create=not options.no_create,
            private=options.private or None,
            replace=options.replace,
        )
    if options.json:
        print_json({"url": url})
    else:
        print(printable(url))
    return 0
