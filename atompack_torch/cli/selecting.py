"""Commands that write some molecules of a dataset, or some of their fields."""

from __future__ import annotations

import argparse
import re

from atompack_torch.cli._arguments import Command, argument, integer, source_and_target
from atompack_torch.cli._output import UsageError, print_json
from atompack_torch.cli._writing import (
    KEYS,
    TARGET_OPTIONS,
    pairs_of,
    print_report,
    run_writer,
    target_options,
    writing_errors,
)
from atompack_torch.errors import molecules, printable

_SOURCE_AND_TARGET = source_and_target(
    "a file or folder, or a URL", "the file to write, or its URL", several=False
)


class Drop(Command):
    """Writes all molecules to a new file, without some fields.

      atompack-torch drop all.atp small.atp charges velocities
      atompack-torch drop all.atp small.atp properties/gap

    Keys are names of labels and properties, as `atompack-torch info` lists them.
    """

    help = "write a dataset without some fields"
    arguments = (
        _SOURCE_AND_TARGET,
        argument("field", nargs="+", metavar="KEY", help="labels and properties"),
        KEYS,
        *TARGET_OPTIONS,
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        from atompack_torch.conversion.selecting import drop

        return run_writer(options, drop, options.field)


class Filter(Command):
    """Writes the molecules for which an expression is true to a new file.

      atompack-torch filter all.atp good.atp "energy / n_atoms < -3 and max_force < 10"
      atompack-torch filter md.extxyz iron.atp "'Fe' in elements and n_atoms <= 200"
      atompack-torch filter all.atp runs.atp "startswith(name, 'run 1') and has(forces)"

    Expressions have the syntax of Python: numbers, strings, comparisons, and, or, not, in, arithmetic.
    They know the fields with one value per molecule by name (field('any name') if it is no
    identifier), n_atoms, elements (elements <= {'C', 'H'}, count('Fe')), n_elements, formula, volume,
    periodic, max_force, rms_force, index; max, min, mean, sum, any, all and norm of values of atoms and
    vectors, as in max(norm(forces)); abs, sqrt, exp, log, isnan, startswith, endswith. Every comparison
    with a missing or NaN value is false; has(energy) says which molecules have a label.
    """  # noqa: E501

    help = "write the molecules for which an expression is true"
    arguments = (
        _SOURCE_AND_TARGET,
        argument("expression", metavar="EXPRESSION", help="the condition"),
        KEYS,
        *TARGET_OPTIONS,
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        from atompack_torch.conversion import selecting

        return run_writer(options, selecting.filter, options.expression)


class Rename(Command):
    """Writes all molecules to a new file, with other names for fields.

      atompack-torch rename dft.extxyz dft.atp REF_energy=energy REF_forces=forces
      atompack-torch rename all.atp new.atp energy=energy_pbe energy_r2scan=energy

    A property may become a label, if its values have the shape of that label.
    """

    help = "write a dataset with other names for fields"
    arguments = (
        _SOURCE_AND_TARGET,
        argument("name", nargs="+", metavar="OLD=NEW", help="old and new name of a field"),
        *TARGET_OPTIONS,
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        from atompack_torch.conversion.selecting import rename

        return run_writer(options, rename, pairs_of(options.name, "OLD=NEW"))


class Sample(Command):
    """Writes some molecules, drawn at random without repeats, to a new file.

      atompack-torch sample all.atp some.atp 1000 --seed 3
      atompack-torch sample all.atp look.extxyz 10

    They stay in their order. The same seed gives the same molecules.
    """

    help = "write some molecules, drawn at random"
    arguments = (
        _SOURCE_AND_TARGET,
        argument("n", type=int, metavar="N", help="number of molecules"),
        integer("--seed", "another seed, others (default: 0)", 0),
        KEYS,
        *TARGET_OPTIONS,
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        from atompack_torch.conversion.selecting import sample

        return run_writer(options, sample, options.n, options.seed)


class Split(Command):
    """Splits a dataset at random into several files.

      atompack-torch split all.atp train.atp val.atp test.atp --fractions 0.8 0.1 0.1 --seed 1
      atompack-torch split md.extxyz train.atp test.atp --fractions 90/10 --by trajectory
      atompack-torch split all.atp train.extxyz test.extxyz --fractions 0.9,0.1 --by formula

    With --by, molecules with equal values stay together, so that no trajectory is in both the
    training and the test set; sizes are then as near to the fractions as whole groups permit.
    With --stratify, each target gets its share of the molecules of every value. Sources and targets
    are of any format that `atompack-torch convert` reads and writes. Each target appears when it is
    complete. The same seed gives the same files.
    """

    help = "split a dataset into files for training, validation and test"
    arguments = (
        argument("source", metavar="SOURCE", help="a file or folder, or a URL"),
        argument("target", nargs="+", metavar="TARGET", help="the files to write"),
        argument(
            "--fractions",
            required=True,
            metavar="A B ...",
            help="sizes of the targets, which add up to 1, or to 100: 80/10/10",
        ),
        integer("--seed", "another seed, other parts (default: 0)", 0),
        argument(
            "--by",
            metavar="FIELD",
            help="keep molecules with the same value together: name, a property, or formula",
        ),
        argument(
            "--stratify",
            metavar="FIELD",
            help="distribute the values of a field, or formulas, alike over all targets",
        ),
        KEYS,
        *TARGET_OPTIONS,
    )

    def prepare(self, argv: list[str]) -> list[str]:
        """Joins the numbers after ``--fractions``, so that paths may follow them."""
        if "--fractions" not in argv:
            return argv
        first = last = argv.index("--fractions") + 1
        while last < len(argv) and re.fullmatch(r"[\d.,/]+", argv[last]):
            last += 1
        return [
            *argv[:first],
            *([",".join(argv[first:last])] if first < last else []),
            *argv[last:],
        ]

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        from atompack_torch.conversion.selecting import split

        fractions = _fractions(options.fractions)
        with writing_errors():
            reports = split(
                options.source,
                options.target,
                fractions,
                options.seed,
                options.by,
                options.stratify,
                **target_options(options),
            )
        pairs = zip(options.target, reports, strict=True)
        if options.json:
            print_json([{"target": path, **report.as_dict()} for path, report in pairs])
        elif not options.quiet:
            for path, report in pairs:
                n, atoms = report.structures_written, report.atoms_written
                print(f"{printable(path)}: {molecules(n)}, {atoms:,} atoms")
            for line in dict.fromkeys(line for report in reports for line in report.warnings):
                print_report(f"warnings  {line}")
        return 0


def _fractions(text: str) -> list[float]:
    try:
        numbers = [float(number) for number in re.split(r"[,/]", text)]
    except ValueError:
        raise UsageError(
            f"--fractions: expected numbers as in 0.9 0.1 or 90/10, got {text}"
        ) from None
    return [number / 100 for number in numbers] if abs(sum(numbers) - 100) < 1e-6 else numbers
