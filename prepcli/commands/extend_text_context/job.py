"""extend-text-context: the cuts of a Lhotse Shar set with texts as contexts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from prepcli.commands.extend_text_context.options import TextContextOptions
from prepcli.commands.extend_text_context.texts import NORMALIZED, parse_suffix, with_text_context
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.publishing.rejects import Origin
from prepcli.engine.run.job import Advance
from prepcli.engine.run.workers import UnitJob
from prepcli.engine.state.plan import InputFile, Plan, Unit
from prepcli.engine.state.store_output import OutputSizes
from prepcli.engine.state.work_folder import work_folder
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError
from prepcli.formats.folders import numbered
from prepcli.formats.indexes import index_name, indexes_of
from prepcli.formats.names import brace_text
from prepcli.formats.shar import (
    AUDIO_NAME,
    CUTS_FILE,
    TARGET,
    TEXT_CONTEXT_CUTS,
    CutWriter,
    PlainCutWriter,
    shard_text,
)
from prepcli.interface.options import settings_of, shown_defaults
from prepcli.manifest.shar_cuts import CutsFile, cut_heads, cut_lines, cuts_digest, measure_cuts, read_cuts
from prepcli.storage.input_files import state_of
from prepcli.storage.paths import NUMBER

LOST_TEXTS = "lost_texts"
"""What the units count for the summary: cuts whose normalized text was left out."""


def text_context_workspace(folder: Path, work_dir: Path | None = None) -> Workspace:
    """The workspace of the texts: inside what stands beside the set for the run that made it, which it leaves alone."""
    return Workspace(folder, work_folder(folder, work_dir) / TEXT_CONTEXT_CUTS, work_dir=work_dir)


@dataclass(frozen=True, slots=True)
class CutsShard(Unit):
    """The cuts of a shard."""

    number: int
    file: CutsFile


TextContextPlan = Plan[CutsShard, None]


class TextContextJob(UnitJob[CutsShard, None]):
    """Writes each file of cuts again. A unit is a shard."""

    command: ClassVar[str] = "extend-text-context"
    reads_audio_files = False
    defaults = shown_defaults(TextContextOptions)

    def __init__(self, folder: Path, options: TextContextOptions, num_workers: int = 1) -> None:
        self.folder = folder
        self.options = options
        self.num_workers = num_workers
        self._suffix = parse_suffix(options.suffix)

    def plan(self, workspace: Workspace) -> TextContextPlan:
        """Read all cuts."""
        found = numbered(self.folder / "cuts", CUTS_FILE)
        if not found:
            raise UsageError(f"{self.folder} is not a Lhotse Shar set: it has no cuts/cuts.<number>.jsonl.gz")
        files = {number: CutsFile(path, state_of(path)) for number, path in sorted(found.items())}
        sizes = measure_cuts(list(files.values()), self.num_workers)
        return Plan(
            units=[
                CutsShard(f"shard_{shard_text(number)}", size.seconds, size.num_cuts, number, file)
                for (number, file), size in zip(files.items(), sizes, strict=True)
            ],
            records_in=sum(size.num_cuts for size in sizes),
            contents=None,
            inputs=[
                InputFile(str(file.path), size.sha256, file.state, cuts_digest)
                for file, size in zip(files.values(), sizes, strict=True)
            ],
        )

    def settings(self, plan: TextContextPlan) -> dict[str, Any]:
        """The options."""
        return settings_of(self.options)

    def output_patterns(self, plan: TextContextPlan) -> Sequence[str]:
        """The cuts."""
        cuts = f"{TEXT_CONTEXT_CUTS}/cuts.{NUMBER}.jsonl"
        return (cuts, f"{cuts}.gz")

    def made_of(self, found: OutputSizes, name: str) -> Iterator[str]:
        """The index of the cuts."""
        return indexes_of(found, name)

    def process(self, plan: TextContextPlan, unit: CutsShard, writer: UnitWriter, advance: Advance) -> None:
        """Write the cuts of a shard, all of them and in their order."""
        path = unit.file.path
        data = read_cuts(unit.file)
        heads = cut_heads(data, str(path))
        name = f"{TEXT_CONTEXT_CUTS}/{path.name}"
        file = writer.open(name)
        cuts = CutWriter(file) if path.suffix == ".gz" else PlainCutWriter(file)
        for number, (line, head) in enumerate(zip(cut_lines(data, str(path)), heads, strict=True), start=1):
            try:
                new = with_text_context(line, self._suffix, self.options.keep_field)
            except (msgspec.DecodeError, ValueError) as error:
                raise UsageError(f"{path}:{number} is not a cut: {error}; repair the set first") from None
            cuts.add_line(new.line)
            writer.extra[LOST_TEXTS] += new.lost_text
            if new.rejected is None:
                writer.count(1, head.duration)
            else:
                writer.reject(line, new.rejected, Origin(str(path), number))
            advance(1, head.duration)
        cuts.close()
        if isinstance(cuts, PlainCutWriter):
            place = index_name(self.folder, path, writer.workspace.out, name)
            if place is not None:
                writer.add_after(place, cuts.index)

    def finish(self, plan: TextContextPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Return the paths to paste into a training config; there is nothing to merge."""
        out = writer.workspace.out
        numbers = [unit.number for unit in plan.units]
        whole = numbers[-1] - numbers[0] + 1 == len(numbers)
        shards = brace_text(shard_text(numbers[0]), shard_text(numbers[-1])) if whole else "*"
        suffix = ".jsonl.gz" if plan.units[0].file.path.suffix == ".gz" else ".jsonl"
        details: dict[str, Any] = {"cuts": out / f"{TEXT_CONTEXT_CUTS}/cuts.{shards}{suffix}"}
        details[TARGET] = out / AUDIO_NAME.format(TARGET, shards)
        if lost := sum(marker.extra.get(LOST_TEXTS, 0) for marker in markers):
            details["texts"] = (
                f"{lost:,.0f} cuts had a {NORMALIZED}, which MagpieTTS reads in place of the text: "
                f"--keep-field {NORMALIZED} keeps it"
            )
        return details
