"""The option that shares the work of a command among several processes."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping

from atompack_torch.cli._output import UsageError

_TORCHRUN = ("RANK", "WORLD_SIZE")
_SLURM = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT")


def add_part(parser: argparse._ActionsContainer, what: str) -> None:
    """Adds the option.

    Args:
        parser: parser of the command, or a group of its options.
        what: what the command does with a part, for the help text.
    """
    parser.add_argument(
        "--part",
        metavar="I/N",
        help=f"{what}: part I of N, where I is from 0 to N-1; `auto` takes both from torchrun "
        "(RANK, WORLD_SIZE) or from a SLURM job array that counts from 0 (--array=0-7)",
    )


def part_of(options: argparse.Namespace) -> tuple[int, int] | None:
    """Returns the part that was asked for.

    Args:
        options: the parsed options.

    Returns:
        Number of the part, from 0, and number of parts; None without the option.

    Raises:
        UsageError: there is no such part, or the environment does not name one.
    """
    given: str | None = options.part
    if given is None:
        return None
    if given == "auto":
        return part_of_environment(os.environ)
    found = re.fullmatch(r"(\d+)/(\d+)", given)
    if found is None:
        raise UsageError(f"--part: expected I/N or auto, got {given!r}")
    return _checked(int(found[1]), int(found[2]), "--part")


def part_of_environment(environment: Mapping[str, str]) -> tuple[int, int]:
    """Returns the part of this process among those started by torchrun or SLURM.

    The ranks of a torchrun in each task of an array share the part of the task.

    Args:
        environment: variables of the environment.

    Returns:
        Number of the part, from 0, and number of parts.

    Raises:
        UsageError: the variables are absent, or do not count from 0.
    """
    parts = [_named(environment, names) for names in (_SLURM, _TORCHRUN)]
    found = [part for part in parts if part is not None]
    if not found:
        names = f"{' and '.join(_TORCHRUN)} or {' and '.join(_SLURM)}"
        raise UsageError(f"--part auto: expected {names} in the environment, got neither")
    if parts[0] is not None:
        low = environment.get("SLURM_ARRAY_TASK_MIN", "0")
        high = environment.get("SLURM_ARRAY_TASK_MAX", str(parts[0][1] - 1))
        if (low, high) != ("0", str(parts[0][1] - 1)):
            raise UsageError(
                f"--part auto: expected an array of all tasks from 0 (--array=0-7), got "
                f"{parts[0][1]} tasks from {low} to {high}: give --part I/N for some of them"
            )
    number, count = 0, 1
    for inner, n_inner in found:
        number, count = number * n_inner + inner, count * n_inner
    return number, count


def _named(environment: Mapping[str, str], names: tuple[str, str]) -> tuple[int, int] | None:
    if any(name not in environment for name in names):
        return None
    values = [environment[name] for name in names]
    if not all(value.isdecimal() for value in values):
        raise UsageError(f"--part auto: expected numbers in {' and '.join(names)}, got {values}")
    return _checked(int(values[0]), int(values[1]), f"--part auto: {names[0]}")


def _checked(number: int, count: int, where: str) -> tuple[int, int]:
    if number >= count:
        raise UsageError(f"{where}: expected a number from 0 to {count - 1}, got {number}")
    return number, count
