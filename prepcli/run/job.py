"""What a command must tell the engine. The engine knows nothing of speech; a job knows nothing of ranks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from prepcli.run.plan import Plan, Unit
from prepcli.run.publish import Marker, UnitWriter

Advance = Callable[[int, float], None]
"""Called by a job as it goes: so many more records, so many more seconds of audio are behind us."""


class Job(ABC):
    """One command's work: `plan` its units, `process` each, `finish` when all are there.

    A job object is made from options alone; `plan` loads what `process` needs (it is called once in the main process
    of every rank, before the workers start, which inherit the object). Both must depend on the inputs and the
    settings only: that is what makes the output the same for any number of ranks and workers.

    Attributes:
        command: the command's name, e.g. `manifest-to-tarred`.
        output_patterns: globs below OUT that cover everything the job writes; `--overwrite` removes just these.
    """

    command: ClassVar[str]
    output_patterns: Sequence[str]

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Every option that shapes the output, under its command-line name, as JSON values."""

    @abstractmethod
    def plan(self) -> Plan:
        """Read the inputs and cut the work into units.

        Raises:
            UsageError: the inputs or the options cannot work; nothing has been written yet.
        """

    def planned_rejects(self) -> Iterator[bytes]:
        """The lines (see `prepcli.run.rejects.reject_line`) of `Plan.planned_rejects`, in input order."""
        return iter(())

    @abstractmethod
    def process(self, unit: Unit, writer: UnitWriter, advance: Advance) -> None:
        """Do one unit, in a worker process: write its files, count or reject each of its records.

        Bad data is a reject. Any exception that leaves this method stops the run; nothing of the unit is published.
        """

    def finish(self, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Merge what the units left, when all of them are done; may run more than once, with the same result.

        `markers` come in the order of the plan's units. Returns what `report.json` should say beside the counts.
        """
        return {}
