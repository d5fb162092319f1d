"""Commands for the Hugging Face hub."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from atompack_torch.cli._arguments import JSON, Argument, Command, add_commands, argument, flag
from atompack_torch.cli._output import UsageError, print_result
from atompack_torch.errors import AtompackError, printable


def _repository(name: str) -> tuple[Argument, ...]:
    """Returns the arguments for a place in a repository, given the help text for its name."""
    return (
        argument("repository", metavar="OWNER/NAME", help="a repository of the hub"),
        argument("name", nargs="?", metavar="PLACE", help=name),
        argument("--revision", metavar="NAME", help="branch (default: main)"),
        argument(
            "--repo-type",
            choices=("dataset", "model", "space"),
            default="dataset",
            help="its type",
        ),
        JSON,
    )


@contextlib.contextmanager
def _hub_errors() -> Iterator[None]:
    """Converts errors about names and options to usage errors."""
    try:
        yield
    except AtompackError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from error


class Pull(Command):
    """Gets a dataset from the Hugging Face hub; what was downloaded before is not again.

      atompack-torch hub pull me/alloys train
      atompack-torch hub pull me/alloys train --revision v2 --to data/
      atompack-torch hub pull --offline me/alloys train

    Prints the path of the files, for `atompack-torch info` and `apt.open`.
    """

    name = "pull"
    help = "get a dataset from the hub"
    arguments = (
        *_repository("folder or file in the repository (default: the only one)"),
        argument(
            "--to",
            dest="folder",
            metavar="FOLDER",
            help="put the files there, under their names in the repository (default: the local "
            "cache)",
        ),
        flag("--offline", "use only what is there already"),
        flag("--force", "download everything again"),
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        from atompack_torch import hub

        with _hub_errors():
            path = hub.download(
                options.repository,
                options.name,
                options.revision,
                repo_type=options.repo_type,
                local_dir=options.folder,
                local_files_only=options.offline,
                force_download=options.force,
            )
        print_result(options, {"path": str(path)}, printable(str(path)))
        return 0


class Push(Command):
    """Verifies a dataset and sends it to the Hugging Face hub, in one commit.

      atompack-torch hub push train/ me/alloys train
      atompack-torch hub push water.atp me/water --message "Add water"
      atompack-torch hub push train/ me/alloys train --replace

    Prints the address of what was uploaded, for `apt.open`.
    """

    name = "push"
    help = "verify a dataset and send it to the hub"
    arguments = (
        argument(
            "path",
            metavar="PATH",
            help="a folder of .atp files, an .atp file or a feature cache",
        ),
        *_repository("folder or file in the repository (default: its root, or the same name)"),
        argument("--message", metavar="TEXT", help="message of the commit"),
        flag("--private", "make a new repository private"),
        flag("--no-create", "do not create a repository that does not exist"),
        flag("--replace", "remove shards that PATH does not have, too"),
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        from atompack_torch import hub

        with _hub_errors():
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
        print_result(options, {"url": url}, printable(url))
        return 0


_COMMANDS = (Push(), Pull())


class Hub(Command):
    """Sends datasets to the Hugging Face hub, and gets them from there.

      atompack-torch hub push train/ me/alloys train
      atompack-torch hub pull me/alloys train --to data/
      atompack-torch hub pull --json me/alloys train | jq -r .path

    Each has options of its own: `atompack-torch hub push --help`. Needs huggingface_hub (pip install
    huggingface_hub), and for pushing its login or HF_TOKEN.
    """  # noqa: E501

    name = "hub"
    help = "send datasets to the Hugging Face hub, or get them from there"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the commands."""
        add_commands(parser, _COMMANDS, "subcommand")

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        return next(one for one in _COMMANDS if options.subcommand == one.name).run(options)


COMMANDS = (Hub(),)
