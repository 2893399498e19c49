"""A line of a manifest in a chain of runs, and how well it fits to a line that a later run has made from it."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

from prepcli.commands.inspect.rows import Row
from prepcli.formats.names import digest, member_stem, normal_path, path_in, plain_stem, segment_suffix
from prepcli.formats.shar import recording_id, segment_id
from prepcli.jobs.ids import file_id, path_id
from prepcli.jobs.same_audio import real_file
from prepcli.manifest.fields import REJECT_SECONDS
from prepcli.storage.addresses import is_address
from prepcli.storage.containers import own_name

NEAR = 0.002
"""Seconds by which times of one record may differ in two manifests, because commands round them."""
_RESAMPLED = 0.02
"""Seconds by which a duration may differ after resampling or encoding."""
_SAMPLE = 0.0005
"""Seconds by which two records are too near to be different ones: a sample at 2 kHz."""
_TAIL = re.compile(r"(?:[_@-].*)?")
"""The parts that writers append to a stem to make it unique: a segment, a shard, a digest."""
_PARTS = re.compile(r"[-@](?:shard\d+|n\d+|c\d+)(?=[-@]|$)")
"""Those of them that say nothing about the file and the segment."""
_CHANGED = {"audio_filepath", "offset", "duration", "shard_id", "sampling_rate", "source_audio_offset", "id"}


class Fit(NamedTuple):
    """How well a record fits to one that was made from it: the smaller, the better.

    Attributes:
        is_other_file: whether the audio of both is not the same file.
        unexplained: the characters of the made one's name that this record does not account for.
        is_elsewhere: whether the made one does not say at which second of the file it begins.
        apart: seconds by which their times differ.
    """

    is_other_file: bool = False
    unexplained: int = 0
    is_elsewhere: bool = False
    apart: float = 0.0


@dataclass(frozen=True)
class Found:
    """A line of a manifest: its place and its fields.

    `folder` is where relative audio paths start; `number`: its number among those of a run's inputs, which is in the
    names that the run makes unique.
    """

    manifest: str
    line: int
    fields: Row
    folder: str
    number: int = 0

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
        return simple if simple and real_file("", simple) == self.audio else self.audio

    @cached_property
    def start(self) -> float:
        """The first second within the audio."""
        return _number(self._timed.get("offset"))

    @cached_property
    def duration(self) -> float:
        """Seconds; 0 if the line states none."""
        return _number(self.fields.get(REJECT_SECONDS, self._timed.get("duration")))

    @property
    def _timed(self) -> Row:
        """The fields with the times of the audio: of a conversation, those of its first turn with audio."""
        turns: list[Any] = self.fields["conversations"] if self.is_conversation else []
        return next((turn for turn in turns if isinstance(turn, dict) and turn.get("type") == "audio"), self.fields)

    def is_called(self, name: str, time: float | None) -> bool:
        """Whether the record has this name, and `time`, if it is given, lies in it."""
        if time is not None and not self.start <= time < self.start + self.duration:
            return False
        base = os.path.basename(own_name(self.name))
        file = os.path.basename(self.audio) if self.is_conversation else base
        named = (self.name, self.audio, file, os.path.splitext(base)[0], self.fields.get("id"))
        if time is None and name in self._names_of_audio:  # the times are those of the first audio
            return True
        return name in named or (os.sep in name and real_file("", os.path.abspath(name)) == self.audio)

    @cached_property
    def audio_of_turns(self) -> list[str]:
        """The audio of the turns of a conversation, as the line names it."""
        turns: list[Any] = self.fields["conversations"] if self.is_conversation else []
        return [str(turn.get("value")) for turn in turns if isinstance(turn, dict) and turn.get("type") == "audio"]

    @cached_property
    def _names_of_audio(self) -> set[str]:
        own = {own_name(path) for path in self.audio_of_turns}
        return {*self.audio_of_turns, *own, *map(os.path.basename, own)}

    def fit(self, made: "Found") -> Fit | None:
        """How well the record fits to `made`; None if `made` is not made from it."""
        if self.is_conversation or made.is_conversation:
            return Fit(apart=abs(self.duration - made.duration)) if self.name == made.name else None
        if self.audio and made.audio == self.audio:
            before, after = made.start - self.start, self.start + self.duration - made.start - made.duration
            is_within = not self.duration or min(before, after) >= -NEAR
            return Fit(apart=abs(before) + abs(after)) if is_within else None
        apart = abs(self.duration - made.duration)
        is_same_text = self.fields.get("text", "") == made.fields.get("text", self.fields.get("text", ""))
        if apart > _RESAMPLED or not is_same_text or not self._may_begin(made):
            return None
        stem = made._stem
        tails = [stem[len(own) :] for own in self._stems if stem.startswith(own) and _TAIL.fullmatch(stem, len(own))]
        if not tails:
            return None
        tail = min(tails, key=len)
        is_there = self._span in tail or made.name in self._cuts or made.start > 0 or self.start == 0
        return Fit(True, len(self._unexplained(tail)), not is_there, apart)

    def differing(self, made: "Found") -> int:
        """The number of fields that both have with other values, besides those that writers change."""
        both = (self.fields.keys() & made.fields.keys()) - _CHANGED
        return sum(self.fields[name] != made.fields[name] for name in both)

    def _may_begin(self, made: "Found") -> bool:
        """Whether `made`, which has a file of its own, may be what lies at the place of this record."""
        if (cut_at := made.fields.get("source_audio_offset")) is not None:
            # It was cut now, or the record from which it was made was.
            starts = [self.start] + [
                _number(self.fields[name]) for name in ["source_audio_offset"] if name in self.fields
            ]
            return any(abs(_number(cut_at) - start) <= NEAR for start in starts)
        return made.start == 0 or abs(made.start - self.start) <= NEAR

    def _unexplained(self, tail: str) -> str:
        for own in (self._span, self._tag):
            at = tail.rfind(own)
            if at >= 0:
                start = at - 1 if at and tail[at - 1] in "-@_" else at
                tail = tail[:start] + tail[at + len(own) :]
        return _PARTS.sub("", tail)

    @cached_property
    def _span(self) -> str:
        """The part of names for the place of the record within its file."""
        return segment_suffix(self.start, self.duration)[1:]

    @cached_property
    def _tag(self) -> str:
        """The part of names for the file if another file has the same name."""
        return digest(self.number, normal_path(self.name)) if self.name else ""

    @cached_property
    def _cuts(self) -> set[str]:
        """The ids of cuts of the record."""
        paths = (self.name, path_in(self.folder, self.name))
        return {segment_id("cut", recording_id(path), self.start, self.duration) for path in paths}

    @property
    def _stem(self) -> str:
        """The name that a writer gave to the audio, without suffix; of a row of Parquet and of a cut, the id."""
        id = self.fields.get("id")
        if isinstance(id, str) and id and ".parquet::" in self.name:
            return id
        return os.path.splitext(own_name(self.name))[0] if self.fields.get("audio_filepath") else self.name

    @cached_property
    def _stems(self) -> set[str]:
        """The names that writers give the audio of this record, without suffixes."""
        id, path = self.fields.get("id"), self.name if self.audio else f"{self.name}.flac"  # a cut's name has no suffix
        names = [path, path_in(self.folder, path)] if self.audio else [path]
        names += [id] if self.audio and isinstance(id, str) and id else []
        made = {function(name) for function in (member_stem, plain_stem, file_id, path_id) for name in names}
        return made | self._cuts | set(names[2:]) | {os.path.splitext(own_name(path))[0]}


class Best:
    """The records that fit best to one that was made from one of them."""

    def __init__(self, made: Found) -> None:
        self._made = made
        self._fits: list[tuple[float, Found]] = []
        self._least: Fit | None = None
        self._apart = 0.0

    def add(self, found: Found) -> None:
        """Compare a record with the best."""
        if (fit := found.fit(self._made)) is None:
            return
        if self._least is None or fit[:3] < self._least[:3]:
            self._fits, self._least, self._apart = [], fit, fit.apart
        if fit[:3] == self._least[:3] and fit.apart <= self._apart + _SAMPLE:
            self._apart = min(self._apart, fit.apart)
            self._fits.append((fit.apart, found))

    @property
    def found(self) -> list[Found]:
        """The best, those with the nearest times first; several if they fit equally well."""
        near = [(apart, one.differing(self._made), one) for apart, one in self._fits if apart <= self._apart + _SAMPLE]
        least = min((num for _, num, _ in near), default=0)
        return [one for _, num, one in sorted(near, key=itemgetter(0)) if num == least]


def num_places(records: Iterable[Found]) -> int:
    """The number of different audio, or of different names of records without audio, among records."""
    return len({(one.audio or one.name, round(one.start, 3), one.is_conversation) for one in records})


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
