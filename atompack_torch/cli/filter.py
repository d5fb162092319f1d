"""Writes the structures for which an expression is true to a new file.

  atompack-torch filter all.atp good.atp "energy / n_atoms < -3 and max_force < 10"
  atompack-torch filter md.extxyz iron.atp "'Fe' in elements and n_atoms <= 200"
  atompack-torch filter all.atp runs.atp "startswith(name, 'run 1') and has(forces)"

Expressions have the syntax of Python: numbers, strings, comparisons, and, or, not, in, arithmetic.
They know the fields with one value per structure by name (field('any name') if it is no
identifier), n_atoms, elements (elements <= {'C', 'H'}, count('Fe')), n_elements, formula, volume,
periodic, max_force, rms_force, index; max, min, mean, sum, any, all and norm of values of atoms and
vectors, as in max(norm(forces)); abs, sqrt, exp, log, isnan, startswith, endswith. Every comparison
with a missing or NaN value is false; has(energy) tells which structures have a label.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._options import add_source_and_target
from atompack_torch.cli._targets import add_keys, add_target_options, run_writer

NAME = "filter"
HELP = "write the structures for which an expression is true"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_source_and_target(
        parser, "a file or folder, or a URL", "the file to write, or its URL", several=False
    )
    parser.add_argument("expression", metavar="EXPRESSION", help="the condition")
    add_keys(parser)
    add_target_options(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.conversion import selecting

    return run_writer(
        options,
        lambda **given: selecting.filter(
            options.source, options.target, options.expression, **given
        ),
    )
