"""download fisher, download hub5: cut transcribed conversations into single-speaker slices, and write manifests.

A slice joins consecutive utterances of one speaker without the silence and the rejected utterances between them, so its
text is complete. NeMo's scripts for these corpora do the same. Slices are cut directly from the recordings on disk; the
corpus is not copied.
"""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from prepcli.audio import shorten
from prepcli.audio.encode import encode
from prepcli.audio.info import NOT_PASSABLE, AudioInfo
from prepcli.audio.limits import check_claims, segment_samples
from prepcli.audio.opening import open_source
from prepcli.audio.probe import probe
from prepcli.audio.read import read_segment
from prepcli.commands.download.conversations import (
    Conversation,
    SlicedCorpus,
    TranscriptLine,
    parse_span,
)
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.engine.publishing.rejects import Origin, reject_line
from prepcli.engine.run.function import Output, run
from prepcli.engine.run.report import Report
from prepcli.engine.state.plan import AnyPlan, InputFile, Plan, Unit, input_file
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError, naming, option
from prepcli.interface.calls import current_call
from prepcli.interface.options import PathText, settings_of
from prepcli.manifest.fields import decode_line
from prepcli.processes.in_hand import take_in_hand
from prepcli.processes.pools import map_in_order
from prepcli.storage.input_files import check_unchanged

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class RecordingFile:
    """A recording on disk; only the requested samples are read.

    Attributes:
        path: path of the file.
        info: the properties of the audio.
        decoded: all samples, of shape (num_samples, num_channels), if the file cannot be read in part, such as a file
            compressed with shorten (19 MB for ten minutes of a telephone call); otherwise None.
    """

    path: str
    info: AudioInfo
    decoded: "NDArray[Any] | None" = None

    def read(self, start: int, num_samples: int, channel: int) -> "NDArray[Any]":
        """Return samples `start` to `start + num_samples` of one channel, of shape (num_samples,).

        Raises:
            RecordRejected: UNREADABLE_AUDIO or MISSING_AUDIO, if the samples cannot be read.
        """
        take_in_hand(self.path, start, num_samples, channel)
        if self.decoded is not None:
            return self.decoded[start : start + num_samples, channel]
        samples: NDArray[Any] = read_segment(self.path, self.info, start, num_samples)[:, channel]
        return samples


def open_recording(path: str) -> RecordingFile:
    """Open a recording.

    Raises:
        RecordRejected: MISSING_AUDIO if the file does not exist, UNREADABLE_AUDIO if it cannot be read or is truncated.
    """
    take_in_hand(path)
    with open_source(path, path) as source:
        sphere = shorten.shortened_sphere(source)
        if sphere is not None:
            import numpy as np

            decoded = np.frombuffer(shorten.decode(source, sphere, path), "<i2").reshape(-1, sphere.num_channels)
            size = len(decoded), sphere.num_channels
            info = AudioInfo(NOT_PASSABLE, "PCM_16", sphere.sampling_rate, *size, data_offset=None)
            return RecordingFile(path, check_claims(info, source.size, path), decoded)
    info = probe(path)
    return RecordingFile(path, info, None if info.is_passable else read_segment(path, info))


_SURVEYED_PER_TASK = 128
"""Number of conversations that a worker process surveys per task."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The facts about a conversation that planning needs.

    Attributes:
        conversation: the conversation.
        num_lines: the number of records, which are lines of the transcript.
        seconds: seconds of speech according to the transcript.
        transcript: the file of the transcript, with its digest and its state (to detect changes).
        undecodable: the `sample_coding` in the header of a recording that this machine cannot decode; None if the
            machine can decode the recording, or if the recording cannot be opened.
    """

    conversation: Conversation
    num_lines: int
    seconds: float
    transcript: InputFile
    undecodable: str | None


def survey(corpus: SlicedCorpus, conversations: Sequence[Conversation], num_workers: int) -> list[Surveyed]:
    """Read all transcripts, and check that there is a decoder for recordings that are compressed with shorten.

    Returns:
        The facts about each conversation, in the order of `conversations`.

    Raises:
        UsageError: recordings are compressed with shorten, and this machine has no decoder.
    """
    chunks = [conversations[at : at + _SURVEYED_PER_TASK] for at in range(0, len(conversations), _SURVEYED_PER_TASK)]
    surveyed = [one for chunk in map_in_order(partial(_survey_some, corpus), chunks, num_workers) for one in chunk]
    codings = [(one.undecodable, one.conversation.audio) for one in surveyed if one.undecodable is not None]
    if codings:
        coding, path = codings[0]
        raise UsageError(
            f"{len(codings):,} recordings are compressed with shorten ({coding}; the first is {path}), which nothing "
            f"on this machine decodes: {shorten.how_to_decode(coding)}"
        )
    return surveyed


def _survey_some(corpus: SlicedCorpus, conversations: Sequence[Conversation]) -> list[Surveyed]:
    return [_survey_one(corpus, conversation) for conversation in conversations]


def _survey_one(corpus: SlicedCorpus, conversation: Conversation) -> Surveyed:
    transcript = input_file(conversation.transcript)
    num_lines, seconds = 0, 0.0
    for _, line in corpus.lines(conversation):
        num_lines += 1
        words = line.split(maxsplit=max(corpus.times) + 1)
        with contextlib.suppress(RecordRejected, IndexError):
            start, end = parse_span(*(decode_line(words[at]) for at in corpus.times))
            seconds += end - start
    audio, sphere, undecodable = conversation.audio, None, None
    # If the audio cannot be opened, the lines of the conversation are rejected later.
    with contextlib.suppress(RecordRejected), open_source(audio, audio) as source:
        sphere = shorten.shortened_sphere(source)
    if sphere is not None and shorten.decoder(sphere.coding) is None:
        undecodable = sphere.coding
    return Surveyed(conversation, num_lines, seconds, transcript, undecodable)


CONVERSATIONS_PER_UNIT = 4
_ROUNDING = 1e-6
"""The seconds by which a sum of floats such as 3.3 + 6.7 may fall short of 10 by rounding."""
_VOCABULARY, _LINES = "vocab.txt", "parts/{}.json"
SLICES = "slices"
"""The key for the number of slices in the counts of a unit."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A usable utterance, its position in the recording in samples, and its line of the transcript."""

    utterance: TranscriptLine
    start: int
    num_samples: int
    line: bytes
    origin: Origin


@dataclass(frozen=True, slots=True)
class Chunk(Unit):
    """A unit of work: a few conversations whose slices go into one manifest."""

    surveyed: Sequence[Surveyed]

    @property
    def part(self) -> str:
        """The part of the corpus that the conversations belong to, such as `train`."""
        return self.surveyed[0].conversation.part


SlicingPlan = Plan[Chunk, None]


def slice_corpus(corpus: SlicedCorpus, folder: PathText, min_duration: float) -> Report:
    """Cut the conversations of a corpus into slices in `folder`, as the current call asks for.

    A record is a line of a transcript; several records make one line of a manifest. A unit is a few conversations that
    go into one manifest.

    Args:
        corpus: finds and reads the conversations.
        folder: the folder of the slices and manifests.
        min_duration: minimum seconds of speech per slice; 0 makes each utterance a slice.
    """
    if min_duration == float("inf"):  # every record would be a reject
        raise UsageError(f"{option('--min-slice-duration')} takes seconds, not inf")
    manifests = {part: f"manifest_{part}.json" for part in corpus.folders}
    output = Output(folder, *manifests.values(), *([_VOCABULARY] if corpus.has_vocabulary else []))
    if output.engine.retry_rejects and has_new_transcripts(corpus, output.workspace):
        output.engine = replace(output.engine, overwrite=True)  # the parts have other conversations now

    def plan(workspace: Workspace) -> SlicingPlan:
        return _plan(corpus, output.engine.num_workers)

    def write(_: None, unit: Chunk, writer: UnitWriter) -> None:
        manifest = writer.open_part(_LINES.format(unit.id))
        for surveyed in unit.surveyed:
            for record in _Slicer(corpus, surveyed, writer, min_duration).records():
                manifest.write(msgspec.json.encode(record) + b"\n")
            writer.advance(surveyed.num_lines, surveyed.seconds)

    def join(made: SlicingPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        for part, manifest in manifests.items():
            writer.join(manifest, (_LINES.format(unit.id) for unit in made.units if unit.part == part))
        if corpus.has_vocabulary:
            writer.add(_VOCABULARY, _vocabulary(writer.part(_LINES.format(unit.id)) for unit in made.units))
        paths = {f"manifest_{part}": output.path / manifest for part, manifest in manifests.items()}
        return {SLICES: int(totals(markers)[SLICES]), **paths}

    def recordings(made: AnyPlan) -> list[str]:
        return [one.conversation.audio for unit in made.units for one in unit.surveyed]

    # Earlier versions wrote the names of settings without `--`. Several corpora may have the same destination.
    settings = {name.removeprefix("--"): value for name, value in settings_of(current_call().options).items()}
    return run(output, plan, write, join, settings=settings, files_of_records=recordings, shares_out=True)


def _plan(corpus: SlicedCorpus, num_workers: int) -> SlicingPlan:
    """Read all transcripts with `survey`, which counts their lines and seconds of speech."""
    files = corpus.find()
    surveyed = survey(corpus, files.conversations, num_workers)

    def reject_lines() -> Iterator[bytes]:
        for path, reason, detail in files.unused:
            original = msgspec.json.encode({"audio_filepath": path})
            yield reject_line(original, RecordRejected(reason, detail), Origin(path, 1))

    units = list(_chunks(surveyed))
    return Plan(
        units,
        sum(unit.num_records for unit in units) + len(files.unused),
        None,
        [*map(input_file, files.tables), *{one.transcript.path: one.transcript for one in surveyed}.values()],
        dict(Counter(file.reason.value for file in files.unused)),
        notes=list(files.notes),
        reject_lines=reject_lines,
    )


def _vocabulary(parts: Iterable[Path]) -> bytes:
    """The characters of all texts, one a line, sorted."""
    decoder = msgspec.json.Decoder(dict[str, Any])
    characters: set[str] = set()
    for part in parts:
        for line in part.read_bytes().splitlines():
            characters.update(decoder.decode(line)["text"])
    return "".join(f"{character}\n" for character in sorted(characters)).encode()


class _Slicer:
    """Cuts the slices of a conversation, and rejects its other lines."""

    def __init__(self, corpus: SlicedCorpus, surveyed: Surveyed, writer: UnitWriter, min_duration: float) -> None:
        """Read the transcript, which must be as it was when the run was planned."""
        self._corpus, self._writer, self._min_duration = corpus, writer, min_duration
        self._conversation, transcript = surveyed.conversation, surveyed.transcript
        self._lines = [(line, Origin(transcript.path, number)) for number, line in corpus.lines(self._conversation)]
        if transcript.state is not None:
            check_unchanged(transcript.path, transcript.state, same_content=transcript.has_same_content)

    def records(self) -> Iterator[dict[str, Any]]:
        """Write the slices, and yield their manifest records, sorted by label, then time."""
        try:
            recording = open_recording(self._conversation.audio)
        except RecordRejected as rejected:
            for line, origin in self._lines:
                self._writer.reject(line, rejected, origin)
            return
        folder, rate = self._corpus.folders[self._conversation.part], recording.info.sampling_rate
        for label, pieces in sorted(self._pieces(recording).items()):
            count = 0
            for group, seconds in _groups(pieces, rate, self._min_duration):
                try:
                    if seconds < self._min_duration - _ROUNDING:
                        detail = f"the last {len(group)} utterances of {label} have {seconds:.2f} s together"
                        raise RecordRejected(RejectReason.BELOW_MIN_DURATION, detail)
                    audio, num_samples = _join(recording, group)
                except RecordRejected as rejected:
                    for piece in group:
                        self._writer.reject(piece.line, rejected, piece.origin)
                    continue
                count += 1
                name = f"{folder}/{label}_{count:03d}.wav"
                self._writer.add(name, audio)
                self._writer.count(len(group), num_samples / rate)
                self._writer.extra[SLICES] += 1
                yield {
                    "audio_filepath": name,
                    "duration": num_samples / rate,
                    "text": " ".join(piece.utterance.text for piece in group),
                    "speaker": group[0].utterance.speaker,
                }

    def _pieces(self, recording: RecordingFile) -> dict[str, list[_Piece]]:
        """The usable utterances by label, sorted by time; other lines become rejects."""
        pieces: dict[str, list[_Piece]] = defaultdict(list)
        info = recording.info
        for line, origin in self._lines:
            try:
                utterance = self._corpus.utterance(self._conversation, decode_line(line))
                if not utterance.text:
                    raise RecordRejected(RejectReason.EMPTY_TEXT, "the text has no words left")
                if utterance.channel >= info.num_channels:
                    detail = (
                        f"channel {utterance.channel} (from 0) is asked for, {recording.path} has {info.num_channels}"
                    )
                    raise RecordRejected(RejectReason.BAD_FIELD, detail)
                start, num_samples = segment_samples(info, utterance.start, utterance.end - utterance.start)
            except RecordRejected as rejected:
                self._writer.reject(line, rejected, origin)
            else:
                pieces[utterance.label].append(_Piece(utterance, start, num_samples, line, origin))
        for label in pieces:
            pieces[label].sort(key=lambda piece: piece.start)
        return pieces


class _Reject(msgspec.Struct):
    reject_reason: str
    audio_filepath: str | None = None


def has_new_transcripts(corpus: SlicedCorpus, workspace: Workspace) -> bool:
    """Whether a recording that no transcript named in the finished run of `workspace` has a transcript now."""
    if not workspace.rejects_file.exists():
        return False
    decoder = msgspec.json.Decoder(_Reject)
    with naming(workspace.rejects_file), workspace.rejects_file.open("rb") as lines:
        rejects = list(map(decoder.decode, lines))
    missing = RejectReason.MISSING_TRANSCRIPT.value
    unlisted = {reject.audio_filepath for reject in rejects if reject.reject_reason == missing}
    return bool(unlisted) and any(one.audio in unlisted for one in corpus.find().conversations)


def _chunks(surveyed: Sequence[Surveyed]) -> Iterator[Chunk]:
    for part, members in groupby(surveyed, key=lambda one: one.conversation.part):
        conversations = list(members)
        for number, first in enumerate(range(0, len(conversations), CONVERSATIONS_PER_UNIT)):
            chunk = conversations[first : first + CONVERSATIONS_PER_UNIT]
            seconds, num_lines = sum(one.seconds for one in chunk), sum(one.num_lines for one in chunk)
            yield Chunk(f"{part}_{number:06d}", seconds, num_lines, chunk)


def _groups(pieces: Sequence[_Piece], rate: int, min_seconds: float) -> Iterator[tuple[list[_Piece], float]]:
    """Group consecutive pieces: pieces are added to a group until it has at least `min_seconds` of audio.

    Yields the pieces and the total seconds of each group. The last group may be shorter.
    """
    group: list[_Piece] = []
    seconds = 0.0
    for piece in pieces:
        group.append(piece)
        seconds += piece.num_samples / rate
        if seconds >= min_seconds - _ROUNDING:
            yield group, seconds
            group, seconds = [], 0.0
    if group:
        yield group, seconds


def _join(recording: RecordingFile, pieces: Sequence[_Piece]) -> tuple[bytes, int]:
    """Join pieces; returns the content of a WAV file (16 bits, one channel), and its number of samples."""
    import numpy as np

    samples = np.concatenate(
        [recording.read(piece.start, piece.num_samples, piece.utterance.channel) for piece in pieces]
    )
    return encode(samples, recording.info.sampling_rate, "wav"), len(samples)
