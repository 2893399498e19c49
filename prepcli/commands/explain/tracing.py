"""Finds a record in the manifests and rejects of a chain of runs, and follows it from run to run."""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from prepcli.audio.probe import probe
from prepcli.commands.explain.report import Explanation, Hop, Source, Trace
from prepcli.commands.inspect.rows import LineKind, Row, read_rows
from prepcli.engine.run.chain import Step, chain_of
from prepcli.engine.state.plan import AUDIO_BASE_DIRS
from prepcli.errors import PrepcliError, RecordRejected, UsageError
from prepcli.formats.lenient_json import decode_json
from prepcli.formats.names import member_stem, path_in
from prepcli.formats.shar import recording_id, segment_id
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.ids import file_id, path_id
from prepcli.jobs.inputs.conversations import conversations_among, holds_conversations
from prepcli.jobs.inputs.data import data_of
from prepcli.jobs.inputs.named import manifests_of
from prepcli.jobs.records import Records
from prepcli.jobs.same_audio import real_file
from prepcli.manifest.mixing import leaves_of
from prepcli.manifest.scan import Range, blocks_of
from prepcli.manifest.sources import expand_paths
from prepcli.storage.addresses import is_address
from prepcli.storage.containers import own_name
from prepcli.storage.paths import AnyPath, absolute

_NEAR = 0.002
"""Seconds by which times of one record may differ in two manifests, because commands round them."""
_RESAMPLED = 0.02
"""Seconds by which a duration may differ after resampling or encoding."""
_CONTAINERS = (".parquet", ".zip", ".tar", ".tar.gz", ".tgz")
_PLAIN = re.compile(r"[\w.@ +-]*", re.ASCII)
_TAIL = re.compile(r"(?:[_@-].*)?")
"""The parts that writers append to a stem to make it unique: a segment, a shard, a digest."""
MAX_TRACES = 20
"""The number of records of one name that are traced: each costs a reading of all manifests."""


@dataclass(frozen=True)
class Found:
    """A line of a manifest: its place and its fields; `folder` is where relative audio paths start."""

    manifest: str
    line: int
    fields: Row
    folder: str

    @cached_property
    def name(self) -> str:
        """The name of the audio, as the line has it; of a cut and of a conversation, its id."""
        names = ("id", "audio_filepath") if self.is_conversation else ("audio_filepath", "id")
        return next((str(self.fields[name]) for name in names if self.fields.get(name)), "")

    @property
    def is_conversation(self) -> bool:
        """Whether the record has turns; it then has the place of the first audio among them."""
        return isinstance(self.fields.get("conversations"), list)

    @cached_property
    def audio(self) -> str:
        """The path of the audio without links and `..`; empty if the line names none."""
        path = self.fields.get("audio_filepath")
        return real_file(self.folder, path) if isinstance(path, str) and path else ""

    @property
    def place(self) -> str:
        """The path of the audio as people know it: with links, without `..`."""
        path = str(self.fields.get("audio_filepath") or "")
        simple = os.path.normpath(path_in(self.folder, path)) if path and not is_address(self.audio) else self.audio
        return simple if real_file("", simple) == self.audio else self.audio

    @cached_property
    def start(self) -> float:
        """The first second within the audio."""
        return _number(self.fields.get("offset"))

    @cached_property
    def duration(self) -> float:
        """Seconds; 0 if the line states none."""
        return _number(self.fields.get("duration"))

    def is_called(self, name: str, time: float | None) -> bool:
        """Whether the record has this name, and `time`, if it is given, lies in it."""
        if time is not None and not self.start <= time < self.start + self.duration:
            return False
        base = os.path.basename(own_name(self.name))
        file = os.path.basename(self.audio) if self.is_conversation else base
        named = (self.name, self.audio, file, os.path.splitext(base)[0], self.fields.get("id"))
        return name in named or (os.sep in name and real_file("", os.path.abspath(name)) == self.audio)

    def difference(self, made: "Found") -> float | None:
        """How much a record `made` from this one differs in its times, in seconds; None if it is not made from it."""
        if self.is_conversation or made.is_conversation:
            return 0.0 if self.name == made.name else None
        if self.audio and (made.audio == self.audio or made.name == self.name):
            before, after = made.start - self.start, self.start + self.duration - made.start - made.duration
            is_within = not self.duration or min(before, after) >= -_NEAR
            return abs(before) + abs(after) if is_within else None
        start = made.fields.get("source_audio_offset")
        if start is not None and abs(_number(start) - self.start) > _NEAR:
            return None
        apart = abs(self.duration - made.duration)
        has_other_text = self.fields.get("text", "") != made.fields.get("text", self.fields.get("text", ""))
        return None if apart > _RESAMPLED or has_other_text or not self._may_name(made) else apart

    def _may_name(self, made: "Found") -> bool:
        stem = os.path.splitext(own_name(made.name))[0] if made.fields.get("audio_filepath") else made.name
        return any(stem.startswith(own) and _TAIL.fullmatch(stem, len(own)) for own in self._stems)

    @cached_property
    def _stems(self) -> set[str]:
        """The names that writers give the audio of this record, without suffixes."""
        if not self.audio:
            return {self.name}
        paths = (self.name, path_in(self.folder, self.name))
        made = {function(path) for function in (member_stem, file_id, path_id) for path in paths}
        made |= {segment_id("cut", recording_id(path), self.start, self.duration) for path in paths}
        return made | {text for text in [self.fields.get("id")] if isinstance(text, str) and text}


def explain_record(record: str, out: AnyPath, work_dir: Path | None) -> Explanation:
    """Explain all records of the chain of `out` that have the name `record`; errors as of `prepcli.explain`."""
    steps = chain_of(out, work_dir, may_be_part=True)
    return _Tracing(record, steps, absolute(out)).explanation()


class _Tracing:
    def __init__(self, record: str, steps: list[Step], out: str) -> None:
        name, at, seconds = record.rpartition("@")
        time = None
        with contextlib.suppress(ValueError):
            time = float(seconds) if at else None
        self._record, self._time = record, time
        self._name = record if time is None else name
        self._sign = _sign_of(self._name)
        self._out, self._steps = out, steps
        self._last = [step for step in steps if step.out == steps[-1].out]
        self._notes: dict[str, None] = {}

    def explanation(self) -> Explanation:
        for found in (self._kept, self._dropped, self._renamed):
            traces: dict[object, Trace] = {}
            for trace in found():
                ways = tuple((hop.manifest, hop.line) for hop in trace.hops)
                traces.setdefault((ways, trace.source.start, trace.reason), trace)
                if len(traces) > MAX_TRACES:
                    self._notes[f"more than {MAX_TRACES} records have this name: give one, as NAME@SECONDS"] = None
                    traces.popitem()
                    break
            if traces:
                return Explanation(self._record, self._out, list(traces.values()), list(self._notes))
        pauses = "" if self._time is None else ", or nothing lies at this time: it is in a pause between records"
        raise UsageError(
            f"no record of {self._out}, of the runs that made it, or of their rejects is named "
            f"{self._name}{pauses}; the name is that of a line's audio_filepath or id"
        )

    def _kept(self) -> Iterator[Trace]:
        for found in self._outputs(self._steps[-1], self._sign):
            if self._is_kept(found) and found.is_called(self._name, self._time):
                yield self._trace(found, "kept")

    def _is_kept(self, found: Found) -> bool:
        """Whether a line of the last output is in SET, which may be one of its files."""
        return found.manifest == self._out or self._out == self._steps[-1].out

    def _dropped(self) -> Iterator[Trace]:
        for step in reversed(self._steps):
            for reject, found in self._rejects(step, self._sign):
                if found.is_called(self._name, self._time):
                    yield self._reject(step, reject, found)

    def _renamed(self) -> Iterator[Trace]:
        """Records with this name in an input, whose names are others in SET."""
        for step in self._steps:
            for found in self._inputs(step, self._sign):
                if found.is_called(self._name, self._time):
                    yield from self._followed(step, found)

    def _followed(self, step: Step, found: Found) -> Iterator[Trace]:
        """The ends of a record in an input of `step`."""
        place, ends = (found.manifest, found.line), 0
        for reject, one in self._rejects(step):
            if place == (one.manifest, one.line) and self._is_at(one):
                ends += 1
                yield self._reject(step, reject, one)
        later = [other for other in self._steps if any(step in made for _, made in other.sources)]
        for made in self._outputs(step):
            if found.difference(made) is None or (made.audio == found.audio and not self._is_at(made)):
                continue
            ends += 1
            if step in self._last and self._is_kept(made):
                yield self._trace(made, "kept")
                continue
            readers = [other for other in later if any(path == made.manifest for path, _ in other.sources)]
            if not readers:
                yield self._trace(made, "dropped", by=step.name, reason="not used", detail=f"in {made.manifest}")
            for other in readers:
                yield from self._followed(other, made)
        if not ends and self._is_at(found):
            yield self._trace(found, "not_found")

    def _is_at(self, found: Found) -> bool:
        return self._time is None or found.start <= self._time < found.start + found.duration

    def _reject(self, step: Step, reject: Row, found: Found) -> Trace:
        reason, detail = str(reject["reject_reason"]), str(reject["reject_detail"])
        return self._trace(found, "dropped", by=step.name, reason=reason, detail=detail)

    def _trace(self, found: Found, verdict: str, **more: str) -> Trace:
        """The trace of a record from its source to the line `found`."""
        hops: list[Hop] = []
        at: Found | None = found
        first = found
        while at is not None:
            first = at if at.audio else first
            makers = [one for one in reversed(self._steps) if _is_output(at.manifest, one)]
            if not makers:
                break
            # Several runs have added to a set: the maker is the one that has read the record.
            before = ((one, self._made_from(one, at)) for one in makers)
            step, source = next((pair for pair in before if pair[1] is not None), (makers[0], None))
            if source is None and any(os.path.isfile(path) for one in makers for path, _ in one.sources):
                self._notes[f"the record from which {step.name} made {at.name} is not in its inputs any more"] = None
            hops.insert(0, Hop(step.plan.command, at.manifest, at.line, _rules(step, at), step.plan.run_with))
            at = source
        return Trace(found.name, verdict, _source_of(first), hops, **more)

    def _made_from(self, step: Step, made: Found) -> Found | None:
        """The record in an input of `step` from which it made `made`; None if it is not there, or the audio is one."""
        best: tuple[float, Found] | None = None
        for sign in dict.fromkeys((_sign_of(made.audio), b"")):  # most runs keep the name of the audio
            for found in self._inputs(step, sign):
                apart = found.difference(made)
                if apart is not None and (best is None or apart < best[0]):
                    best = apart, found
            if best is not None:
                return best[1]
        return None

    def _inputs(self, step: Step, sign: bytes) -> Iterator[Found]:
        """The records in the inputs of a run; of manifests, at least those whose lines hold `sign`."""
        folders = step.plan.settings.get(AUDIO_BASE_DIRS) or []
        for path, made in step.sources:
            own = os.path.dirname(path)
            folder = folders[0] if len(folders) == 1 and own not in folders else own
            if os.path.isfile(path) or is_address(path):
                yield from self._lines(path, folder, sign)
            elif not made and not os.path.isdir(path):
                self._notes[f"{path} is not there any more"] = None

    def _outputs(self, step: Step, sign: bytes = b"") -> Iterator[Found]:
        paths: list[str] = []
        try:
            paths = [str(path) for leaf in leaves_of(data_of(step.out)) for path in leaf.paths]
        except UsageError:  # the parts of a split, and conversations
            for one in step.report.outputs.values() if step.report else ():
                with contextlib.suppress(UsageError):
                    paths += expand_paths(one) if isinstance(one, str) and one.endswith((".json", ".jsonl")) else []
        for path in dict.fromkeys(paths):
            if os.path.isfile(path) or is_address(path):
                yield from self._lines(path, os.path.dirname(path), sign)

    def _rejects(self, step: Step, sign: bytes = b"") -> Iterator[tuple[Row, Found]]:
        folders = step.plan.settings.get(AUDIO_BASE_DIRS) or []
        for reject in step.rejects(sign):
            manifest = os.path.join(step.plan.run_in, str(reject.get("manifest_filepath", "")))
            own = os.path.dirname(manifest)
            folder = folders[0] if len(folders) == 1 and own not in folders else own
            yield reject, Found(os.path.normpath(manifest), int(reject.get("manifest_line", 0)), reject, folder)

    def _in_container(self, path: str) -> Iterator[Found]:
        try:
            records = Records(manifests_of(path, SetInput(), others=conversations_among(None)))
        except UsageError as error:
            self._notes[f"the records of {path} are not read: {error}"] = None
            return
        for number in range(len(records)):
            fields = decode_json(records.line(number), dict[str, Any])
            yield Found(path, records.origin(number).line, fields, records.base_dir(number))

    def _lines(self, path: str, folder: str, sign: bytes) -> Iterator[Found]:
        if path.lower().endswith(_CONTAINERS) or holds_conversations(path):
            yield from self._in_container(path)
            return
        kind: LineKind = "cuts" if os.path.basename(path).startswith("cuts.") else "manifest"
        before = 0
        for block in blocks_of(Range(path, 0, None)):
            if sign not in block:
                before += block.count(b"\n") + (not block.endswith(b"\n"))
                continue
            rows = read_rows(block, kind)
            for line, fields in zip(rows.lines, rows.rows, strict=True):
                yield Found(path, before + line, fields, folder)
            before += rows.num_lines


def _sign_of(name: str) -> bytes:
    """Bytes of every line in which a record is named `name`; none if JSON may write the name in several ways."""
    sign = os.path.splitext(os.path.basename(own_name(name)))[0]
    return sign.encode() if _PLAIN.fullmatch(sign) else b""


def _is_output(manifest: str, step: Step) -> bool:
    return manifest == step.out or (not step.plan.writes_file and manifest.startswith(f"{step.out.rstrip('/')}/"))


def _rules(step: Step, found: Found) -> list[str]:
    """The rules that a record has passed in a filter, or its part in a split."""
    if step.plan.command == "filter" and step.report is not None:
        return [str(row["rule"]) for row in step.report.details.get("rules", [])]
    return [f"part {Path(found.manifest).stem}"] if step.plan.command == "split" else []


def _source_of(found: Found) -> Source:
    source = Source(found.place or found.name, found.start, found.start + found.duration)
    with contextlib.suppress(PrepcliError, RecordRejected, OSError):
        rate = probe(found.audio, found.audio).sampling_rate
        samples = (round(source.start * rate), round(source.end * rate))
        source.sampling_rate, source.first_sample, source.last_sample = rate, *samples
    return source


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
