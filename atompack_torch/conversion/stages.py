"""Stages of a conversion: steps that blocks of columns go through on their way to a target."""

from __future__ import annotations

from dataclasses import dataclass, field

from atompack_torch.batch.columns import Columns
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Source


@dataclass
class Run:
    """State of one run over all sources, which the stages of one target read.

    Attributes:
        report: report of the target.
        n_molecules: number of molecules in all sources; None if unknown.
        is_part: True if only a part of the molecules is converted.
        source: the source that is being read.
        first: number of the first molecule of the block in its source.
        is_inside: True if the block belongs to the part; otherwise only its types count.
        n_inside: number of molecules of the source read so far that belong to the part.
        names: names of the fields of the source, before and after edits, in their order.
    """

    report: Report
    n_molecules: int | None
    is_part: bool
    source: Source = field(init=False)
    first: int = 0
    is_inside: bool = True
    n_inside: int = 0
    names: dict[str, None] = field(init=False)
    _outside: Report = field(init=False)

    def begin_source(self, source: Source) -> None:
        """Starts with the next source."""
        self.source, self.n_inside, self.names = source, 0, {}
        self._outside = Report(self.report.on_error, self.report.options)
        self.report.units.clear()
        self.report.is_order_assumed = False
        if source.note:
            self.report.note(source.note)

    def begin_block(self, first: int, n: int, *, is_inside: bool) -> None:
        """Starts with the next block, of ``n`` molecules."""
        self.first, self.is_inside = first, is_inside
        self.block_report.structures_read += n
        self.n_inside += n if is_inside else 0

    @property
    def block_report(self) -> Report:
        """Receives what is done to the block: the report, or another that nobody reads."""
        return self.report if self.is_inside else self._outside

    @property
    def reads_whole_source(self) -> bool:
        """True if all blocks of the source are read, including those outside of the part."""
        return not self.is_part or self.source.read_range is None


class Stage:
    """A step from the columns of a block to others; this one changes nothing.

    A run calls ``begin``; for each source ``begin_source``, ``apply`` for its blocks in order, and
    ``end_source``; then ``finish``. Another run may follow.

    Attributes:
        needs_count: True if ``Run.n_molecules`` must be known.
    """

    needs_count = False

    def begin(self, run: Run) -> None:
        """Forgets an earlier run."""

    def begin_source(self, run: Run) -> None:
        """Prepares for the blocks of the next source."""

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Makes the columns that the next stage receives.

        Args:
            columns: the columns of a block.
            run: the state of the run.

        Returns:
            The columns.

        Raises:
            AtompackError: the columns do not suit the stage.
        """
        return columns

    def end_source(self, run: Run) -> None:
        """Reports on a source after its last block."""

    def finish(self, run: Run) -> None:
        """Reports on the run after the last source, before the target appears.

        Args:
            run: the state of the run.

        Raises:
            AtompackError: what was asked for was not possible.
        """
