#!/usr/bin/env python
"""Step 1 of the Magpie-TTS recipe: checks every record of a manifest before the long steps.

    python prepare_manifest.py MANIFEST OUT [--audio-base-dir A] [--language en --dataset LibriTTS]

Writes OUT/manifest.json (the records that can be used, otherwise as they were), OUT/rejects/<reason>.jsonl (the others,
one file per reason) and OUT/stats.txt. It is a job like those of prepcli: it resumes, reads audio in worker processes
or on several ranks, and accounts for every record. Memory does not grow with the text of the manifest.
"""

import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from numpy.typing import NDArray
from typing_extensions import Unpack

from prepcli.audio.info import AudioInfo
from prepcli.audio.limits import segment_samples
from prepcli.audio.probe import probe
from prepcli.cli.building import build_command
from prepcli.cli.mistakes import ExplainingCommand, run_app
from prepcli.commands.download.data_set import speaker_name
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.publishing.rejects import merge_rejects
from prepcli.engine.run.function import Output, run
from prepcli.engine.run.options import JobArguments
from prepcli.engine.run.report import Report
from prepcli.engine.state.plan import AUDIO_BASE_DIRS, Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import PrepcliError, RecordRejected, RejectReason, UsageError
from prepcli.formats.names import normal_path
from prepcli.interface.calls import CONTINUE_WITH
from prepcli.interface.command import command, declaration
from prepcli.interface.options import Option, PathText
from prepcli.interface.printing import printable
from prepcli.interface.shared_options import AudioFolder, Manifests
from prepcli.jobs.record_job import RecordContents, RecordUnit, units_of
from prepcli.jobs.records import Records, file_identity
from prepcli.jobs.source import items
from prepcli.manifest.record import Record
from prepcli.manifest.sources import expand_paths
from prepcli.manifest.speakers import language_of, speaker_of
from prepcli.storage.paths import path_of

RECORDS_A_UNIT = 4096


class _Counts(msgspec.Struct):
    """Of good records: their durations (seconds), and of each speaker the number of records and their seconds."""

    durations: list[float] = []
    speakers: dict[str, tuple[int, float]] = {}

    def add(self, speaker: str, records: int, seconds: float) -> None:
        before = self.speakers.get(speaker, (0, 0.0))
        self.speakers[speaker] = before[0] + records, before[1] + seconds


class _Rejected(msgspec.Struct):
    reject_reason: str


@dataclass(frozen=True, slots=True)
class _Contents(RecordContents):
    """The records; and for each whether its file has no other record."""

    is_only_record: NDArray[np.bool_]


_Plan = Plan[RecordUnit, _Contents]


@dataclass
class _Checks:
    """The checks of a record; remembers the audio file of the record before."""

    language: str | None
    dataset: str | None
    tolerance: float
    last_audio: tuple[str, AudioInfo] | None = None

    def check_fields(self, record: Record) -> str:
        """Text and speaker; returns the speaker as Magpie-TTS takes it."""
        text, normalized = record.text("text"), record.text("normalized_text")
        read = text if normalized is None else normalized  # the model reads normalized_text, where there is one
        if read is None:
            raise RecordRejected(RejectReason.MISSING_FIELD, "there is neither text nor normalized_text")
        if not read.strip():
            raise RecordRejected(
                RejectReason.EMPTY_TEXT, f"{'text' if normalized is None else 'normalized_text'} is empty"
            )
        speaker = speaker_of(record)
        if speaker is None:
            raise RecordRejected(RejectReason.MISSING_FIELD, "there is no speaker")
        if language_of(speaker):
            return speaker
        if self.language is None or "|" in speaker or not speaker.strip():
            raise RecordRejected(
                RejectReason.BAD_SPEAKER,
                f"speaker is {speaker!r}; Magpie-TTS takes '| Language:xx Dataset:yy Speaker:zz |' "
                "(--language and --dataset make it from a plain name)",
            )
        return speaker_name(self.language, str(self.dataset), speaker.strip())

    def check_audio(self, contents: _Contents, number: int, record: Record) -> None:
        """Is the file there, can it be read, and is it as long as the record says?

        A record with an offset, or one of several of a file, is a part of the file and must lie within it.
        """
        path = contents.records.audio_path(number, record.audio_filepath)
        if self.last_audio is None or self.last_audio[0] != path:
            self.last_audio = path, probe(path)
        info = self.last_audio[1]
        is_whole = not record.offset and contents.is_only_record[number]
        if is_whole and abs(info.duration - record.duration) > self.tolerance:
            raise RecordRejected(
                RejectReason.DURATION_MISMATCH,
                f"the record says {record.duration:.10g} s, the file holds {info.duration:.3f} s",
            )
        segment_samples(info, record.offset, record.duration)


def _finish(plan: _Plan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
    """Join the parts, sort the rejects by reason, and count."""
    workspace = writer.workspace
    total = _Counts()
    durations = [np.empty(0)]
    writer.join("manifest.json", (f"parts/{marker.unit}.jsonl" for marker in markers))
    for marker in markers:
        counts = msgspec.json.decode(writer.part(f"parts/{marker.unit}.counts.json").read_bytes(), type=_Counts)
        durations.append(np.array(counts.durations))
        for speaker, (records, seconds) in counts.speakers.items():
            total.add(speaker, records, seconds)
    lines = _stats(np.concatenate(durations), total.speakers, _split_rejects(plan, markers, writer))
    writer.open("stats.txt").write("".join(line + "\n" for line in lines).encode())
    return {
        "manifest": workspace.out / "manifest.json",
        **plan.contents.records.merged_details(workspace.out),
        "stats": workspace.out / "stats.txt",
    }


def _split_rejects(plan: _Plan, markers: Sequence[Marker], writer: UnitWriter) -> Counter[str]:
    files = [writer.part(name) for marker in markers for name in marker.work_files if name.startswith("rejects/")]
    manifests = [file.path for file in plan.inputs]
    decoder = msgspec.json.Decoder(_Rejected)
    by_reason: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    for line in merge_rejects(plan.reject_lines(), files, manifests):
        reason = decoder.decode(line).reject_reason
        if reason not in by_reason:
            by_reason[reason] = writer.open(f"rejects/{reason}.jsonl")
        by_reason[reason].write(line)
        counts[reason] += 1
    return counts


def _stats(
    durations: NDArray[np.float64], speakers: dict[str, tuple[int, float]], rejects: Counter[str]
) -> Iterator[str]:
    yield f"records    {len(durations):,} of {len(durations) + rejects.total():,}"
    yield f"hours      {durations.sum() / 3600:,.2f}"
    if len(durations):
        shares = (0, 5, 25, 50, 75, 95, 100)
        values = zip(shares, np.percentile(durations, shares), strict=True)
        yield f"seconds    {', '.join(f'{share}%: {value:.2f}' for share, value in values)}"
    languages: dict[str, float] = {}
    for speaker, (_, seconds) in speakers.items():
        language = language_of(speaker) or "?"
        languages[language] = languages.get(language, 0.0) + seconds
    hours = ", ".join(f"{language}: {seconds / 3600:,.2f} h" for language, seconds in sorted(languages.items()))
    yield f"languages  {hours or 'none'}"
    alone = sum(records == 1 for records, _ in speakers.values())
    yield f"speakers   {len(speakers):,}, {alone:,} of them with one record"
    for speaker, (records, seconds) in sorted(speakers.items(), key=lambda item: (-item[1][1], item[0]))[:10]:
        yield f"           {seconds / 3600:,.2f} h in {records:,} records: {speaker}"
    yield f"rejects    {rejects.total():,}"
    for reason, count in sorted(rejects.items()):
        yield f"           {count:,} {reason}: rejects/{reason}.jsonl"


@command("prepare_manifest")
def prepare_manifest(
    manifest: Manifests,
    out: Annotated[
        PathText, Option("Directory for manifest.json, rejects/ and stats.txt.", metavar="OUT", is_argument=True)
    ],
    *,
    audio_base_dir: AudioFolder = None,
    language: Annotated[
        str | None, Option("With --dataset: makes the speaker string from plain speaker names or numbers.")
    ] = None,
    dataset: Annotated[str | None, Option("See --language.")] = None,
    duration_tolerance: Annotated[
        float,
        Option(
            "Seconds by which a record's duration may differ from its file's (one that ends more than 0.02 s "
            "after its file can never be used)."
        ),
    ] = 0.1,
    **more: Unpack[JobArguments],
) -> Report:
    """Check a manifest for Magpie-TTS: fields, text, speakers, files, durations.

    Example: python prepare_manifest.py train.json clean/ --language en --dataset LibriTTS
    """
    if (language is None) != (dataset is None):
        raise UsageError("--language and --dataset make a speaker's name together: give both or none")
    if language is not None and dataset is not None and not re.fullmatch(r"\w+ [^\s|]+", f"{language} {dataset}"):
        raise UsageError("--language is a word such as en, and --dataset a name without blanks and |")
    output = Output(out, "manifest.json", "stats.txt")  # the names by which users and other steps find the output
    manifests = expand_paths(str(manifest))
    base_dir = None if audio_base_dir is None else path_of(str(audio_base_dir))

    def plan(workspace: Workspace) -> _Plan:
        workers = output.engine.num_workers
        records = Records(manifests, base_dir, keys={"path": normal_path}, workspace=workspace, num_workers=workers)
        _, inverse, uses = np.unique(file_identity(records.index, base_dir), return_inverse=True, return_counts=True)
        durations = records.index.duration
        bounds = [*range(0, len(records), RECORDS_A_UNIT), len(records)]
        seconds = [float(durations[lo:hi].sum()) for lo, hi in pairwise(bounds)]
        units = units_of("records", bounds, seconds, make=RecordUnit)
        return records.plan(units, _Contents(records, uses[inverse] == 1))

    def settings(made: _Plan) -> dict[str, Any]:
        return {
            "--language": language,
            "--dataset": dataset,
            "--duration-tolerance": duration_tolerance,
            AUDIO_BASE_DIRS: list(dict.fromkeys(made.contents.records.base_dirs)),
        }

    def write(contents: _Contents, unit: RecordUnit, writer: UnitWriter) -> None:
        checks, counts = _Checks(language, dataset, duration_tolerance), _Counts()
        lines = writer.open_part(f"parts/{unit.id}.jsonl")
        for item in items(contents, unit, writer):
            with item:
                speaker = checks.check_fields(item.record)
                checks.check_audio(contents, item.number, item.record)
                changes = contents.records.merged_changes(item.number, item.record)
                if speaker != item.record.get("speaker"):
                    changes["speaker"] = speaker
                lines.write(item.record.to_json(changes) + b"\n")
                counts.add(speaker, 1, item.record.duration)
                counts.durations.append(item.record.duration)
        writer.open_part(f"parts/{unit.id}.counts.json").write(msgspec.json.encode(counts))

    return run(output, plan, write, _finish, settings=settings)


if __name__ == "__main__":
    # What a stopped run tells the user to type: this script, not prepcli.
    words = [word for word in sys.argv if word != "--overwrite"]
    os.environ.setdefault(CONTINUE_WITH, shlex.join(["python", *words]))
    try:
        app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
        declared = declaration(prepare_manifest)
        app.command(cls=ExplainingCommand)(build_command(["prepare_manifest"], declared.options, lambda: declared.work))
        sys.exit(run_app(app, f"python {Path(__file__).name}"))
    except PrepcliError as error:
        print(f"prepare_manifest: {printable(str(error))}", file=sys.stderr)
        sys.exit(error.exit_code)
