"""download: convert the utterances of an unpacked corpus to audio and NeMo manifests."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from prepcli.audio.convert import TargetFormat, convert
from prepcli.audio.probe import probe_file
from prepcli.commands.download.data_set import CorpusPart
from prepcli.commands.download.index import IndexLine, LineIndex, LineRange
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.publishing.rejects import Origin, reject_line
from prepcli.engine.run.job import Advance
from prepcli.engine.run.workers import UnitJob
from prepcli.engine.state.plan import InputFile, Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, UsageError
from prepcli.processes.in_hand import take_in_hand

INDEX_NAME = "index.jsonl"
"""The index of utterances, in the workspace of the data set."""


def workspace_of(data_set: CorpusPart, data_root: Path) -> Workspace:
    """The workspace of one data set: each has its own, so that others can be added later."""
    return Workspace(data_root, Workspace(data_root).root / "sets" / data_set.name)


CorpusPlan = Plan[LineRange, LineIndex]


class CorpusJob(UnitJob[LineRange, LineIndex]):
    """Units are batches of utterances. Audio is converted if the data set requires it, or used as published.

    Paths in manifests are relative to the manifest's folder, which is where NeMo, lhotse's reader of NeMo manifests
    and prepcli look: the data root can be moved as a whole. Recordings outside of it keep their absolute paths.
    """

    def __init__(self, data_set: CorpusPart, data_root: Path, index_file: Path) -> None:
        self._data_set = data_set
        self._root = data_root
        self._index_file = index_file

    @property
    def command(self) -> str:
        """E.g. `download librispeech dev_clean`."""
        return self._data_set.command

    def settings(self, plan: CorpusPlan) -> dict[str, Any]:
        """Every option that shapes the output."""
        return self._data_set.settings

    def output_patterns(self, plan: CorpusPlan) -> Sequence[str]:
        """Manifests, and what is derived from them."""
        return (*self._data_set.manifests, *self._data_set.derived)

    def plan(self, workspace: Workspace) -> CorpusPlan:
        """Divide the index into units."""
        index = LineIndex(self._index_file)
        inputs = [InputFile(str(self._index_file), index.sha256)]
        return Plan(index.batches, index.records, index, inputs, index.rejects)

    def planned_rejects(self, plan: CorpusPlan) -> Iterator[bytes]:
        """Utterances that were unusable when the index was made."""
        for number, line in plan.contents.unusable():
            yield reject_line(line.original(), line.rejected(), self._origin(number))

    def prepare(self) -> None:
        """Check that the unpacked files still exist."""
        for tree in self._data_set.trees:
            if not (self._root / tree).is_dir():
                raise UsageError(
                    f"{self._root / tree} was unpacked before, but is gone, and not all of it has been converted; "
                    "put it back, or give --overwrite to fetch it again"
                )

    def process(self, plan: CorpusPlan, unit: LineRange, writer: UnitWriter, advance: Advance) -> None:
        """Convert the utterances of a batch, and write their lines."""
        part = writer.open_part(f"parts/{unit.id}.jsonl")
        folder = os.path.dirname(unit.manifest)
        for number, line in plan.contents.lines(unit):
            try:
                duration = self._convert(line, writer)
            except RecordRejected as rejected:
                writer.reject(line.original(), line.rejected(rejected), self._origin(number))
            else:
                audio = line.target or line.source
                path = audio if os.path.isabs(audio) else os.path.relpath(audio, folder or ".")
                record = {"audio_filepath": path, "duration": duration, **line.fields}
                part.write(msgspec.json.encode(record) + b"\n")
                writer.count(1, duration)
            advance(1, line.duration)

    def _convert(self, line: IndexLine, writer: UnitWriter) -> float:
        """Write the WAV of the utterance if required; returns the duration of its audio in seconds."""
        source = str(self._root / line.source)
        take_in_hand(source)
        info = probe_file(source)
        if line.target is not None:
            stored = convert(source, info, TargetFormat("wav"), name=line.source)
            writer.add(line.target, stored.data)
        return info.duration

    def finish(self, plan: CorpusPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Merge the parts: the manifests, in the order of the index, and the files derived from them."""
        parts = [(unit, writer.workspace.root / f"parts/{unit.id}.jsonl") for unit in plan.units]
        if self._data_set.derive is not None:
            for name, lines in self._data_set.derive(_records(parts)):
                derived = writer.open(name)
                for line in lines:
                    derived.write(f"{line}\n".encode())
        details = {}
        for manifest in self._data_set.manifests:
            merged = writer.open(manifest)
            for unit, part in parts:
                if unit.manifest == manifest:
                    merged.write(part.read_bytes())
            details[Path(manifest).stem] = self._root / manifest
        return details

    def _origin(self, number: int) -> Origin:
        return Origin(str(self._index_file), number)


def _records(parts: Sequence[tuple[LineRange, Path]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for unit, part in parts:
        for line in part.read_bytes().splitlines():
            yield unit.manifest, msgspec.json.decode(line)
