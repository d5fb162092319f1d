"""Sends data sets to the Hugging Face hub, and gets them from there.

  atompack-torch hub push train/ me/alloys train
  atompack-torch hub pull me/alloys train --to data/
  atompack-torch hub pull --json me/alloys train | jq -r .path

Each has options of its own: `atompack-torch hub push --help`. Needs huggingface_hub (pip install
huggingface_hub), and for pushing its login or HF_TOKEN.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli.hub import pull, push

NAME = "hub"
HELP = "send data sets to the Hugging Face hub, or get them from there"

_COMMANDS = (push, pull)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands."""
    subparsers = parser.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        command = subparsers.add_parser(
            module.NAME,
            help=module.HELP,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    module = next(m for m in _COMMANDS if options.subcommand == m.NAME)
    status: int = module.run(options)
    return status
