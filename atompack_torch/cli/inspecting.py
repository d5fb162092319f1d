"""Commands that show what is in data, check it, or compare it."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from atompack_torch.cli._arguments import (
    FIELDS,
    JSON,
    MAX_FAULTS,
    PATHS,
    STORAGE_OPTIONS,
    URLS,
    Command,
    argument,
    check_at_least,
    flag,
    integer,
    places_of,
    real,
    remote_options,
    storage_options_of,
)
from atompack_torch.cli._output import (
    UsageError,
    print_error,
    print_result,
    print_text,
    report_check,
    shows_progress,
    styled,
    usage_errors,
)
from atompack_torch.cli._writing import pairs_of, writing_errors
from atompack_torch.errors import FieldError, printable

if TYPE_CHECKING:
    from atompack_torch.formats.entry import Description, Shown


class Diff(Command):
    """Compares two datasets, molecule by molecule.

      atompack-torch diff before.atp after.atp
      atompack-torch diff run.extxyz run.atp --atol 1e-6 --exclude name
      atompack-torch diff --json a.atp b.atp | jq .fields.energy.first

    The datasets may be of different formats. For each field: how many molecules have it in one of
    them only, in how many the values differ, by how much at most, and the numbers of the first. NaN
    equals NaN. The exit status is 1 if there is any difference.
    """

    help = "compare two datasets, molecule by molecule"
    arguments = (
        argument("a", metavar="A", help="a file or folder of any format, or a URL"),
        argument("b", metavar="B", help="another one"),
        real("--rtol", "X", "relative tolerance (default: 0)", 0.0),
        real("--atol", "X", "absolute tolerance (default: 0)", 0.0),
        argument("--fields", nargs="+", metavar="NAME", help="compare these only (default: all)"),
        argument("--exclude", nargs="+", default=[], metavar="NAME", help="leave these fields out"),
        integer(
            "-n",
            "list the first N molecules that differ, for each field (default: %(default)s)",
            5,
        ),
        JSON,
        STORAGE_OPTIONS,
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        from atompack_torch.conversion.comparing import diff

        check_at_least(options, 0, "n", "rtol", "atol")
        with writing_errors():
            found = diff(
                options.a,
                options.b,
                rtol=options.rtol,
                atol=options.atol,
                fields=options.fields,
                exclude=options.exclude,
                max_numbers=options.n,
                progress=shows_progress(options),
                storage_options=storage_options_of(options),
            )
        print_result(options, found.as_dict(), str(found), partial(_print_diff, found.equal))
        return 0 if found.equal else 1


def _print_diff(is_equal: bool, text: str) -> None:
    *lines, last = text.splitlines()
    for line in lines:
        print(printable(line))
    print(styled(last, "green" if is_equal else "red", sys.stdout))


class Head(Command):
    """Shows the first molecules of a file, or the first examples or datasets.

      atompack-torch head alloys.atp
      atompack-torch head --json alloys.atp -n 1 --fields energy forces

    Long values are cut short; --json prints all of them.
    """

    help = "show the first molecules, examples or datasets"
    arguments = (
        PATHS,
        JSON,
        URLS,
        integer("-n", "number of items (default: %(default)s)", 5),
        FIELDS,
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        check_at_least(options, 0, "n")
        with usage_errors():
            entry, places = places_of(options)
            head = entry.head(places, options.n, options.fields)
        documents = list(head.documents) if options.json else []
        print_result(options, documents, head.text, print_text)
        return 0


class Info(Command):
    """Shows what is in a file: its format, molecules, labels, codec, commits, and where its bytes go.

      atompack-torch info alloys.atp
      atompack-torch info --full alloys.atp
      atompack-torch info --json shards/ | jq .n_molecules

    The labels are those of the schema. Molecules that have them, and labels that are all NaN, are
    counted in all records of a dataset of up to 10,000 molecules, and in a sample of 10,000 records of
    a larger one, unless --full is given. Dead space is what older commits left behind: `atompack-torch
    compact` removes it. The tail is the bytes after the last commit.
    """  # noqa: E501

    help = "show molecules, labels, codec, commits, use of space"
    arguments = (
        PATHS,
        JSON,
        URLS,
        flag("--full", "count labels in all records, however many there are"),
    )

    def needs_torch(self, options: argparse.Namespace) -> bool:
        """False: the command must start fast."""
        return False

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        from atompack_torch.formats.dispatch import describe

        _, places = places_of(options)
        described = describe(places, options.full, shows_progress(options))
        return print_description(options, described, "info")


def print_description(options: argparse.Namespace, described: Description, name: str) -> int:
    """Prints a description, and its errors on stderr.

    Args:
        options: the parsed options.
        described: the description.
        name: name of the command.

    Returns:
        The exit status: 1 if there is an error.
    """
    print_result(options, described.document, described.text, print_text)
    for message in described.errors:
        print_error(name, message)
    return 1 if described.errors else 0


class Report(Command):
    """Writes one page of HTML about a dataset of molecules, or about two side by side.

      atompack-torch report alloys.atp -o report.html
      atompack-torch report train.xyz test.xyz -o report.html --cutoff 6
      atompack-torch report --json alloys.atp -o report.html | jq .datasets[0].notes

    Sizes, elements, which molecules have which label, energies per atom before and after reference
    energies, force norms with the molecules of the largest forces, cells, neighbors, molecules with
    equal geometry, values that are not finite, notes on units. The page needs nothing outside it.
    """

    help = "write a page about a dataset: elements, labels, energies, forces, duplicates"
    arguments = (
        argument("path", metavar="PATH", help="a dataset of molecules of any format"),
        argument("other", nargs="?", metavar="PATH2", help="another one to compare with"),
        argument(
            "-o",
            "--output",
            default="report.html",
            metavar="FILE",
            help="the page, which replaces an old one (default: %(default)s)",
        ),
        real(
            "--cutoff",
            "R",
            "radius for neighbor counts, in the unit of the positions (default: %(default)s)",
            5.0,
        ),
        argument(
            "--by",
            metavar="KEY",
            help="list counts, energies, forces and volumes by this property of the molecules "
            "(default: config_type, if there is any)",
        ),
        argument(
            "--predicted",
            nargs="+",
            default=(),
            metavar="NAME=LABEL",
            help="list errors of predictions by group and element, such as mace_energy=energy",
        ),
        STORAGE_OPTIONS,
        JSON,
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        check_at_least(options, 0.001, "cutoff")
        from atompack_torch.reports.building import report

        made = report(
            options.path,
            options.other,
            output=options.output,
            cutoff=options.cutoff,
            by=options.by,
            predicted=pairs_of(options.predicted, "--predicted"),
            progress=shows_progress(options),
            storage_options=storage_options_of(options),
        )
        size = len(made.html.encode()) / 1024
        text = f"{printable(options.output)}: {size:,.0f} KiB"
        document: dict[str, Any] = made.as_dict()
        for dataset in document["datasets"]:
            warned = [note["text"] for note in dataset["notes"] if note["warning"]]
            text += "".join(f"\n{printable(dataset['name'])}: {printable(one)}" for one in warned)
        print_result(options, {"path": options.output, **document}, text)
        return 0


class Show(Command):
    """Shows one molecule with all its labels, or one dataset with all its arrays.

      atompack-torch show alloys.atp 17
      atompack-torch show train.extxyz -1 --atoms 100
      atompack-torch show --json alloys.atp 17 | jq .fields.energy.values
      atompack-torch show profiles.atlas station-3 --fields temperature salinity

    Units are those that the labels have by convention: files store none. Datasets of ATLAS stores
    and arrays of array files have names: INDEX is a name, or a number where nothing has that name.
    """

    help = "show one molecule with all its labels, or one dataset"
    arguments = (
        argument(
            "path",
            nargs=1,
            metavar="PATH",
            help="a dataset of any format that `atompack-torch head` shows, or its URL",
        ),
        argument(
            "index",
            metavar="INDEX",
            help="number of the molecule, -1 is the last one; or name of the dataset",
        ),
        integer("--atoms", "show the first N atoms (default: %(default)s)", 20),
        JSON,
        URLS,
        FIELDS,
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        check_at_least(options, 0, "atoms")
        with usage_errors():
            entry, places = places_of(options)
            has_names = hasattr(entry, "show")
            if has_names:
                shown = entry.show(places[0], options.index, options.fields)
        if not has_names:
            shown = _molecule(options)
        print_result(options, shown.document, shown.text, print_text)
        return 0


def _molecule(options: argparse.Namespace) -> Shown:
    from atompack_torch.formats.dispatch import open as open_path
    from atompack_torch.formats.dispatch import shown_item

    try:
        index = int(options.index)
    except ValueError:
        raise UsageError(f"INDEX: expected a number, got {options.index!r}") from None
    given = remote_options(options)
    if options.fields is not None:
        given["fields"] = options.fields
    (path,) = options.path
    try:
        with usage_errors():
            dataset = open_path(path, **given)
    except FieldError as error:
        if options.fields is None:
            raise
        raise UsageError(str(error)) from error
    try:
        return shown_item(dataset, index, options.atoms)
    except IndexError:
        n = len(dataset)
        raise UsageError(f"INDEX: expected a number below {n:,}, got {index}") from None


class Stats(Command):
    """Counts molecules, atoms and elements; shows the spread of energies and forces.

      atompack-torch stats alloys.atp
      atompack-torch stats alloys.atp --cutoff 5
      atompack-torch stats --json train/ > statistics.json

    For .atp files every record is read. By element: atoms, molecules, RMS of the force components, E0
    (the reference energy, fitted to the total energies by least squares) and, where there are molecules
    of a single isolated atom, the mean of their energies. Values are those of the file,
    and units those that labels have by convention: files store none. For ATLAS stores and array files
    the stored statistics are shown, and no data is read. For Atlas shards: kinds of the values in
    examples, and the spread of numbers.
    """  # noqa: E501

    help = "count molecules and elements, show the spread of energies and forces"
    arguments = (
        PATHS,
        JSON,
        URLS,
        FIELDS,
        argument(
            "--missing",
            choices=("nan", "error", "drop"),
            default="nan",
            help="molecules that lack one of the labels: count them (nan, the default), stop with "
            "an error, or leave them out",
        ),
        real(
            "--cutoff",
            "R",
            "show the mean number of neighbors within R, in the unit of the positions, too",
        ),
        flag(
            "--features",
            "show mean, standard deviation and range of each column of the features of a cache",
        ),
    )

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        check_at_least(options, 0.001, "cutoff")
        given = {
            "fields": options.fields,
            "missing": options.missing if options.missing != "nan" else None,
            "cutoff": options.cutoff,
            "features": options.features or None,
        }
        asked = {name: value for name, value in given.items() if value is not None}
        with usage_errors():
            entry, places = places_of(options)
            found = entry.statistics(places, asked, shows_progress(options))
        print_result(options, found.document, found.text, print_text)
        return 0


class Verify(Command):
    """Reads all data with all checks and lists what is damaged.

      atompack-torch verify alloys.atp
      atompack-torch verify --json shards/ | jq .n_faults

    Reads every record of .atp files, every block of Atlas shards, every array of every dataset of ATLAS
    stores and array files, and recomputes the rows of a feature cache (`atompack-torch cache verify`
    has options for that). Faults are printed to stdout, one per line, with the file and the offset; so
    are warnings about defects that readers tolerate (an uncommitted tail, a damaged older header, NaN
    values). The exit status is 1 if there is any fault. Records of .atp files carry no checksums: an
    altered number that is still a valid number cannot be detected.
    """  # noqa: E501

    help = "read all data and list what is damaged"
    arguments = (PATHS, JSON, URLS, MAX_FAULTS)

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command."""
        check_at_least(options, 0, "max_faults")
        entry, places = places_of(options)
        found = entry.verify(places, options.max_faults, shows_progress(options))
        return report_check(found, options.json)
