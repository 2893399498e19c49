"""The files that the commands that estimate bins write, and the limit for unusable lines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prepcli.commands.estimate_bins.arguments import OutputArguments
from prepcli.commands.estimate_bins.settings import Settings
from prepcli.commands.estimate_bins.text import BinsText
from prepcli.engine.publishing.rejects import Budget
from prepcli.errors import RejectReason, TooManyRejectsError, option
from prepcli.interface.calls import tell
from prepcli.interface.options import PathText
from prepcli.interface.printing import number_of
from prepcli.manifest.datasets import DataSet, Mix
from prepcli.storage.input_files import refuse_input_as_output


@dataclass(frozen=True)
class BinsOutput:
    """The files that a command writes.

    Attributes:
        data: the input, as the user has named it.
        plot: the plot to draw.
        write_config: the config of a data loader, into which the bins are written.
        max_rejects: the limit for unusable lines, as a share or a count.
        is_brief: the text of the report, which names the first unusable line, is not printed.
    """

    data: str
    plot: Path | None
    write_config: Path | None
    max_rejects: float
    is_brief: bool

    def check(self, data: Callable[[], DataSet | Mix], tokenizers: Sequence[str] = ()) -> None:
        """Check the options and output files before the work, so that the command does not fail after the work.

        `data` reads the input, and is called only if an output file already exists.
        `tokenizers`: paths that count as inputs too.

        Raises:
            UsageError: `max_rejects` is invalid, a plot or a config cannot be written, or an output file is one of the
                inputs.
        """
        if self.write_config is not None:
            from prepcli.manifest.loader_config import check_kind_of_file, check_loader_config

            check_kind_of_file(self.write_config)  # checked before it is opened to compare it: a pipe must not be read

        def inputs() -> Iterator[str | Path]:
            from prepcli.manifest.inputs import files_of

            yield from files_of(data())
            for path in map(Path, tokenizers):
                yield from path.iterdir() if path.is_dir() else [path]

        refuse_input_as_output("--write-config", self.write_config, inputs)
        if self.write_config is not None:
            check_loader_config(self.write_config, self.data)
        Budget(self.max_rejects)
        if self.plot is not None:
            from prepcli.engine.publishing.plots import check_plot

            check_plot(self.plot)

    def with_limits(self, settings: Settings) -> Settings:
        """The settings; a limit that the user has not given is that of the config to write, which training follows."""
        if self.write_config is None:
            return settings
        from prepcli.manifest.loader_config import limits_of_config

        limits_of_file = limits_of_config(self.write_config, self.data)
        limits: dict[str, Any] = {
            name: value for name, value in limits_of_file.items() if getattr(settings, name, 0) is None
        }
        if limits:
            shown = ", ".join(f"{name} {value:g}" for name, value in limits.items())
            tell(f"prepcli: {self.write_config}: its limits hold for the bins: {shown}")
        return replace(settings, **limits)

    def conclude(self, report: BinsText, config: Mapping[str, object], limits: Mapping[str, float | None]) -> None:
        """Write the config if one was asked for, and check the number of rejects.

        `limits`: for each key of `config` by which a data loader leaves out examples, the limit that the user gave, or
        None.

        Raises:
            TooManyRejectsError: more records were rejected than allowed; the error has the report.
        """
        budget = Budget(self.max_rejects)
        if report.first_rejected and self.is_brief:  # else the text of the report has it
            tell(
                f"prepcli: warning: {number_of(report.num_rejected, 'line')} cannot be used; the first is "
                f"{report.first_rejected}"
            )
        if self.write_config is not None:
            from prepcli.manifest.loader_config import write_loader_config

            for note in write_loader_config(self.write_config, config, limits, self.data):
                tell(f"prepcli: {note}")
        num_records = report.num_examples + report.num_discarded + report.num_rejected
        if budget.exceeded({RejectReason.BAD_FIELD.value: report.num_rejected}, num_records):
            raise TooManyRejectsError(
                f"{report.num_rejected:,} of {number_of(num_records, 'record')} cannot be used, more than "
                f"{option('--max-rejects')} allows ({budget})",
                report,
            )


def output_of(data: str, asked: OutputArguments) -> BinsOutput:
    """The output that the options of a command ask for."""
    plot, write_config = asked["plot"], asked["write_config"]
    is_brief = asked["quiet"] or asked["as_json"]
    return BinsOutput(data, _path(plot), _path(write_config), asked["max_rejects"], is_brief)


def _path(path: PathText | None) -> Path | None:
    return None if path is None else Path(path)
