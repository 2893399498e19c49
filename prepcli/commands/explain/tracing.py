"""Finds a record in the manifests and rejects of a chain of runs, and follows it from run to run."""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from prepcli.audio.probe import probe
from prepcli.commands.explain.found import Best, Found, num_places
from prepcli.commands.explain.report import Explanation, Hop, Source, Trace
from prepcli.commands.inspect.rows import BlockRows, LineKind, Row, read_rows
from prepcli.engine.run.chain import Step, absolute_in, chain_of
from prepcli.engine.state.plan import AUDIO_BASE_DIRS
from prepcli.errors import PrepcliError, RecordRejected, UsageError
from prepcli.formats.lenient_json import decode_json
from prepcli.interface.printing import number_of
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.inputs.conversations import conversations_among, holds_conversations
from prepcli.jobs.inputs.data import data_of
from prepcli.jobs.inputs.named import manifests_of
from prepcli.jobs.records import Records
from prepcli.manifest.mixing import leaves_of
from prepcli.manifest.scan import Range, blocks_of
from prepcli.manifest.sources import expand_paths
from prepcli.storage.addresses import is_address
from prepcli.storage.containers import own_name
from prepcli.storage.paths import AnyPath, absolute

_CONTAINERS = (".parquet", ".zip", ".tar", ".tar.gz", ".tgz")
_AT = re.compile(r"(.+)@(?:(?:([0-9]+):)?([0-5]?[0-9]):)?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)", re.DOTALL)
"""Matches a name with a time: seconds, or as players show it, with minutes, or hours and minutes, before them."""
_PLAIN = re.compile(r"[\w.@ +-]*", re.ASCII)
_SEGMENT, _FIX_DURATIONS = "segment", "fix-durations"
MAX_TRACES = 20
"""The number of records of one name that are traced: each costs a reading of all manifests."""


def explain_record(record: str, out: AnyPath, work_dir: Path | None) -> Explanation:
    """Explain all records of the chain of `out` that have the name `record`; errors as of `prepcli.explain`."""
    steps = chain_of(out, work_dir, may_be_part=True)
    # A name may end like a time: `utt@2` is the id of a record before it is what lies at 2 s of `utt`.
    names: list[tuple[str, float | None]] = [(record, None)]
    if match := _AT.fullmatch(record):
        names.append((match[1], 3600 * int(match[2] or 0) + 60 * int(match[3] or 0) + float(match[4])))
    for name, time in names:
        if explanation := _Tracing(record, name, time, steps, absolute(out)).explanation():
            return explanation
    name, time = names[-1]
    if time is not None and (explanation := _Tracing(record, name, None, steps, absolute(out)).gap(time)):
        return explanation
    raise UsageError(
        f"no record of {absolute(out)}, of the runs that made it, or of their rejects is named {name}; the name is "
        "that of a line's audio_filepath or id, and may end with @SECONDS"
    )


class _Tracing:
    def __init__(self, record: str, name: str, time: float | None, steps: list[Step], out: str) -> None:
        self._record, self._name, self._time = record, name, time
        self._sign = _sign_of(name)
        self._out, self._steps = out, steps
        self._last = [step for step in steps if step.out == steps[-1].out]
        self._notes: dict[str, None] = {}
        self._passed: set[tuple[str, int]] = set()

    def explanation(self) -> Explanation | None:
        """The traces of the records with the name; None if there are none."""
        for found in (self._kept, self._not_kept):
            traces: dict[object, Trace] = {}
            for trace in found():
                ways = tuple((hop.manifest, hop.line) for hop in trace.hops)
                traces.setdefault((ways, trace.source.start, trace.reason), trace)
                if len(traces) > MAX_TRACES:
                    self._notes[f"only the first {MAX_TRACES} records of this name were followed"] = None
                    traces.popitem()
                    break
            if traces:
                return Explanation(self._record, self._out, list(traces.values()), list(self._notes))
        return None

    def gap(self, time: float) -> Explanation | None:
        """The explanation of a time at which no record with the name lies; None if no record has the name.

        Raises:
            UsageError: the audio ends before, or it was not segmented, so that no run has left out what lies there.
        """
        named = self._named
        if not named:
            return None
        length = _length_of(named[0])
        if length is not None and time >= length:
            raise UsageError(f"{self._name} has no {time:,.3f} s: it lasts {length:,.3f} s")
        # The records of a folder of audio are whole files; those of manifests were looked at before, with their times.
        whole = (step for step in self._steps if AUDIO_BASE_DIRS not in step.plan.settings)
        segmented = next((step for step in whole if step.plan.command == _SEGMENT), None)
        if segmented is None or length is None:
            raise UsageError(f"no record of {self._name} lies at {time:,.3f} s: {self._around(time)}")
        return Explanation(self._record, self._out, [self._pause(segmented, named[0], time)], list(self._notes))

    @cached_property
    def _named(self) -> list[Found]:
        """The records with the name at any time, in outputs and rejects."""
        outputs = (one for step in self._steps for one in self._outputs(step, self._sign))
        rejects = (one for step in self._steps for _, one in self._rejects(step, self._sign))
        return [one for one in (*outputs, *rejects) if one.is_called(self._name, None)]

    def _pause(self, step: Step, found: Found, time: float) -> Trace:
        """The trace of a time that `segment` has put into no segment: what is neither there nor rejected is a pause."""
        source = _source_of(found, time)
        return Trace(self._name, "dropped", source, [], step.name, "pause", self._around(time))

    def _around(self, time: float) -> str:
        """The records before and after a time at which there is none."""
        named = self._named
        ends = [one.start + one.duration for one in named if one.duration and one.start + one.duration <= time]
        starts = [one.start for one in named if one.duration and one.start > time]
        before = f"the record before ends at {max(ends):,.3f} s" if ends else "no record is before"
        after = f"the next begins at {min(starts):,.3f} s" if starts else "none is after"
        rejects = (pair for step in self._steps for pair in self._rejects(step, self._sign))
        timeless = [reject for reject, one in rejects if not one.duration and one.is_called(self._name, None)]
        if not timeless:
            return f"{before}, {after}"
        reason, detail = timeless[0]["reject_reason"], timeless[0]["reject_detail"]
        many = number_of(len(timeless), "reject")
        return f"{before}, {after}; {many} of it without a time, the first is {reason}: {detail}"

    def _kept(self) -> Iterator[Trace]:
        """Records with this name in SET; if there are some, also those with this name that were dropped on the way."""
        is_there = False
        for found in self._outputs(self._steps[-1], self._sign):
            if self._is_kept(found) and found.is_called(self._name, self._time):
                is_there = True
                yield self._trace(found, "kept")
        if is_there:
            yield from self._dropped()

    def _is_kept(self, found: Found) -> bool:
        """Whether a line of the last output is in SET, which may be one of its files."""
        return found.manifest == self._out or self._out == self._steps[-1].out

    def _not_kept(self) -> Iterator[Trace]:
        yield from self._dropped()
        yield from self._renamed()

    def _dropped(self) -> Iterator[Trace]:
        for step in reversed(self._steps):
            for reject, found in self._rejects(step, self._sign):
                if found.is_called(self._name, self._time):
                    yield self._reject(step, reject, found)

    def _renamed(self) -> Iterator[Trace]:
        """Records with this name in an input, whose names are others in SET."""
        for step in self._steps:
            for found in self._inputs(step, self._sign):
                if (found.manifest, found.line) not in self._passed and found.is_called(self._name, self._time):
                    yield from self._followed(step, found)

    def _followed(self, step: Step, found: Found) -> Iterator[Trace]:
        """The ends of a record in an input of `step`."""
        place, ends = (found.manifest, found.line), 0
        for reject, one in self._rejects(step):
            if place == (one.manifest, one.line) and self._is_at(one):
                ends += 1
                yield self._reject(step, reject, one)
        later = [other for other in self._steps if any(step in made for _, made in other.sources)]
        for made in self._made_of(step, found):
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
            is_pause = step.plan.command == _SEGMENT and self._time is not None
            yield self._pause(step, found, self._time or 0.0) if is_pause else self._trace(found, "not_found")

    def _made_of(self, step: Step, found: Found) -> list[Found]:
        """The records that a run has made from one in its inputs."""
        ways = ((found.fit(made), made) for made in self._outputs(step))
        fits = [(fit, made) for fit, made in ways if fit and (made.audio != found.audio or self._is_at(made))]
        fits.sort(key=itemgetter(0))
        # Another record may have the same name and length, and be its source.
        return [
            made
            for _, made in fits[: MAX_TRACES + 1]
            if step in self._makers(made) and any(num_places((one, found)) == 1 for one in self._sources(step, made))
        ]

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
            self._passed.add((at.manifest, at.line))
            if not (makers := self._makers(at)):
                break
            before = ((one, self._sources(one, at)) for one in makers)
            step, sources = next((pair for pair in before if pair[1]), (makers[0], []))
            source = sources[0] if sources else None
            if (count := num_places(sources)) > 1:
                self._notes[
                    f"{at.name} may be made from {count:,} records in the inputs of {step.name}, which have the same "
                    "name, times and text: the source that is named is one of them"
                ] = None
            if source is None and any(os.path.isfile(path) for one in makers for path, _ in one.sources):
                self._notes[f"the record from which {step.name} made {at.name} is not in its inputs any more"] = None
            hops.insert(0, Hop(step.plan.command, at.manifest, at.line, _rules(step, at), step.plan.run_with))
            at = source
        if (count := len(first.audio_of_turns)) > 1:
            self._notes[f"{found.name} has {count:,} turns with audio: the source is that of the first"] = None
        return Trace(found.name, verdict, _source_of(first), hops, **more)

    def _makers(self, found: Found) -> list[Step]:
        """The runs that may have written a line, the last one first."""
        makers = [one for one in reversed(self._steps) if _is_output(found.manifest, one)]
        if len(makers) > 1:  # several runs have added to a set
            known = [one for one in makers if os.path.relpath(found.manifest, one.out) in one.files]
            return known or makers
        return makers

    def _sources(self, step: Step, made: Found) -> list[Found]:
        """The records in the inputs of `step` from which it may have made `made`, the best first; none if it did not.

        There are several if they fit equally well.
        """
        for sign in dict.fromkeys((_sign_of(made.audio), b"")):  # most runs keep the name of the audio
            best = Best(made)
            for found in self._inputs(step, sign):
                if step.plan.command == _FIX_DURATIONS:  # that of the input was wrong, or there was none
                    found = replace(found, fields={**found.fields, "duration": made.fields.get("duration")})
                best.add(found)
            if sources := best.found:
                return sources
        return []

    def _inputs(self, step: Step, sign: bytes) -> Iterator[Found]:
        """The records in the inputs of a run; of manifests, at least those whose lines hold `sign`."""
        folders = [self._folder(step, path) for path in step.inputs]
        for path, made in step.sources:
            folder = self._folder(step, path)
            if os.path.isfile(path) or is_address(path):
                with_unusable = step.plan.command == _FIX_DURATIONS
                yield from self._lines(path, folder, sign, folders.index(folder), with_unusable=with_unusable)
            elif not made and not os.path.isdir(path):
                self._notes[f"{path} is not there any more"] = None

    def _folder(self, step: Step, manifest: str) -> str:
        """The folder from which the paths in a manifest start that `step` has read."""
        folders, own = step.plan.settings.get(AUDIO_BASE_DIRS) or [], os.path.dirname(manifest)
        return str(folders[0]) if len(folders) == 1 and own not in folders else own

    def _outputs(self, step: Step, sign: bytes = b"") -> Iterator[Found]:
        paths: list[str] = []
        try:
            paths = [str(path) for leaf in leaves_of(data_of(step.out)) for path in leaf.paths]
        except UsageError:  # the parts of a split, and conversations
            for one in step.report.outputs.values() if step.report else ():
                with contextlib.suppress(UsageError):
                    paths += expand_paths(one) if isinstance(one, str) and one.endswith((".json", ".jsonl")) else []
        if os.path.isdir(step.out) and all(path.endswith(".list") for path in paths):  # WeNet's name tars or audio
            yield from self._in_container(step.out)
            return
        for path in dict.fromkeys(paths):
            if os.path.isfile(path) or is_address(path):
                yield from self._lines(path, os.path.dirname(path), sign)

    def _rejects(self, step: Step, sign: bytes = b"") -> Iterator[tuple[Row, Found]]:
        for reject in step.rejects(sign):
            manifest = absolute_in(step.plan.run_in, str(reject.get("manifest_filepath", "")))
            line = int(reject.get("manifest_line", 0))
            yield reject, Found(manifest, line, reject, self._folder(step, manifest))

    def _in_container(self, path: str, number: int = 0) -> Iterator[Found]:
        """The records of a container, of a file of conversations, or of a folder without manifests."""
        try:
            records = Records(manifests_of(path, SetInput(), others=conversations_among(None)))
        except UsageError as error:
            self._notes[f"the records of {path} are not read: {error}"] = None
            return
        for record in range(len(records)):
            fields = decode_json(records.line(record), dict[str, Any])
            manifest, line = records.origin(record)
            yield Found(manifest if os.path.isdir(path) else path, line, fields, records.base_dir(record), number)

    def _lines(
        self, path: str, folder: str, sign: bytes, number: int = 0, *, with_unusable: bool = False
    ) -> Iterator[Found]:
        """The records of a file; `with_unusable`: also lines that only lack something that the run has measured."""
        if path.lower().endswith(_CONTAINERS) or holds_conversations(path):
            yield from self._in_container(path, number)
            return
        kind: LineKind = "cuts" if os.path.basename(path).startswith("cuts.") else "manifest"
        before = 0
        for block in blocks_of(Range(path, 0, None)):
            text, numbers = _holding(block, sign)
            rows = read_rows(text, kind) if text else BlockRows()
            for line, fields in zip(rows.lines, rows.rows, strict=True):
                yield Found(path, before + numbers[line - 1], fields, folder, number)
            for line, _ in rows.problems if with_unusable else ():
                with contextlib.suppress(msgspec.DecodeError, ValueError, RecursionError):
                    odd = decode_json(text.split(b"\n")[line - 1], dict[str, Any])
                    yield Found(path, before + numbers[line - 1], odd, folder, number)
            before += block.count(b"\n") + (not block.endswith(b"\n"))


def _holding(block: bytes, sign: bytes) -> tuple[bytes, Sequence[int]]:
    """The lines of a block that hold `sign`, and their numbers in it, from 1."""
    if not sign:
        return block, range(1, block.count(b"\n") + 2)
    lines, numbers = list[bytes](), list[int]()
    number, counted, at = 1, 0, block.find(sign)
    while at >= 0:
        start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at) + 1 or len(block)
        number += block.count(b"\n", counted, start)
        lines.append(block[start:end])
        numbers.append(number)
        counted, at = start, block.find(sign, end)
    return b"".join(lines), numbers


def _sign_of(name: str) -> bytes:
    """Bytes of every line in which a record is named `name`; none if JSON may write the name in several ways."""
    sign = os.path.splitext(os.path.basename(own_name(name)))[0]
    return sign.encode() if _PLAIN.fullmatch(sign) else b""


def _is_output(manifest: str, step: Step) -> bool:
    return manifest == step.out or (not step.plan.writes_file and manifest.startswith(f"{step.out.rstrip('/')}/"))


def _rules(step: Step, found: Found) -> list[str]:
    """The rules that a record has passed in a filter, or its part in a split."""
    if step.plan.command == "filter" and step.report is not None:
        rules = [str(row["rule"]) for row in step.report.details.get("rules", [])]
        return [f"drop {rule}" if rule.startswith("listed in ") else rule for rule in rules]
    return [f"part {Path(found.manifest).stem}"] if step.plan.command == "split" else []


def _length_of(found: Found) -> float | None:
    """The seconds of the audio file of a record; None if it cannot be read."""
    with contextlib.suppress(PrepcliError, RecordRejected, OSError):
        return probe(found.audio, found.audio).duration
    return None


def _source_of(found: Found, time: float | None = None) -> Source:
    """The source of a record, or the second `time` of its audio."""
    line = f"{found.manifest}:{found.line}"  # of a conversation without audio
    start, end = (found.start, found.start + found.duration) if time is None else (time, time)
    source = Source(found.place or line, start, end)
    with contextlib.suppress(PrepcliError, RecordRejected, OSError):
        rate = probe(found.audio, found.audio).sampling_rate
        samples = (round(source.start * rate), round(source.end * rate))
        source.sampling_rate, source.first_sample, source.last_sample = rate, *samples
    return source
