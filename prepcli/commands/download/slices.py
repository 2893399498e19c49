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
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.audio import shorten
from prepcli.audio.encode import encode
from prepcli.audio.info import NOT_PASSABLE, AudioInfo
from prepcli.audio.limits import check_claims, segment_samples
from prepcli.audio.opening import open_source
from prepcli.audio.probe import probe
from prepcli.audio.read import read_segment
from prepcli.commands.download.conversations import Conversation, SlicedCorpus, TranscriptLine, parse_span
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

CONVERSATIONS_PER_UNIT = 4
_SURVEYED_PER_TASK = 128
"""Number of conversations that a worker process surveys per task."""
_ROUNDING = 1e-6
"""The seconds by which a sum of floats such as 3.3 + 6.7 may fall short of 10 by rounding."""
_VOCABULARY, _LINES = "vocab.txt", "parts/{}.json"
_SLICES = "slices"
"""The key for the number of slices in the counts of a unit."""


class Surveyed(NamedTuple):
    """The facts of a conversation that planning needs.

    Attributes:
        conversation: the conversation.
        num_lines: the number of records, which are lines of the transcript.
        seconds: seconds of speech according to the transcript.
        transcript: the file of the transcript.
        undecodable: the `sample_coding` of a recording that this machine cannot decode; None if it can.
    """

    conversation: Conversation
    num_lines: int
    seconds: float
    transcript: InputFile
    undecodable: str | None


class _Piece(NamedTuple):
    """A usable utterance, its position in the recording in samples, and its line of the transcript."""

    utterance: TranscriptLine
    start: int
    num_samples: int
    line: bytes
    origin: Origin


@dataclass(frozen=True, slots=True)
class _Conversations(Unit):
    """A unit of work: a few conversations whose slices go into the manifest of `part`."""

    part: str
    surveyed: Sequence[Surveyed]


SlicingPlan = Plan[_Conversations, None]


def slice_corpus(corpus: SlicedCorpus, folder: PathText, min_duration: float) -> Report:
    """Cut the conversations of a corpus into slices in `folder`, as the current call asks for.

    A record is a line of a transcript; several records make one line of a manifest. A unit is a few conversations that
    go into one manifest. A slice has at least `min_duration` seconds of speech; 0 makes each utterance a slice.
    """
    if min_duration == float("inf"):  # every record would be a reject
        raise UsageError(f"{option('--min-slice-duration')} takes seconds, not inf")
    manifests = {part: f"manifest_{part}.json" for part in corpus.folders}
    output = Output(folder, *manifests.values(), *([_VOCABULARY] if corpus.has_vocabulary else []))
    if output.engine.retry_rejects and _has_new_transcripts(corpus, output.workspace):
        output.engine = replace(output.engine, overwrite=True)  # the parts have other conversations now

    def plan(workspace: Workspace) -> SlicingPlan:
        return _plan(corpus, output.engine.num_workers)

    def write(_: None, unit: _Conversations, writer: UnitWriter) -> None:
        manifest = writer.open_part(_LINES.format(unit.id))
        for surveyed in unit.surveyed:
            for record in _slices(corpus, surveyed, writer, min_duration):
                manifest.write(msgspec.json.encode(record) + b"\n")
            writer.advance(surveyed.num_lines, surveyed.seconds)

    def join(made: SlicingPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        for part, manifest in manifests.items():
            writer.join(manifest, (_LINES.format(unit.id) for unit in made.units if unit.part == part))
        if corpus.has_vocabulary:
            writer.add(_VOCABULARY, _vocabulary(writer.part(_LINES.format(unit.id)) for unit in made.units))
        paths = {f"manifest_{part}": output.path / manifest for part, manifest in manifests.items()}
        return {_SLICES: int(totals(markers)[_SLICES]), **paths}

    def recordings(made: AnyPlan) -> list[str]:
        return [surveyed.conversation.audio for unit in made.units for surveyed in unit.surveyed]

    # Earlier versions wrote the names of settings without `--`. Several corpora may have the same destination.
    settings = {name.removeprefix("--"): value for name, value in settings_of(current_call().options).items()}
    return run(output, plan, write, join, settings=settings, files_of_records=recordings, shares_out=True)


def _plan(corpus: SlicedCorpus, num_workers: int) -> SlicingPlan:
    files = corpus.find()
    surveyed = survey(corpus, files.conversations, num_workers)

    def reject_lines() -> Iterator[bytes]:
        for path, rejected in files.unused:
            yield reject_line(msgspec.json.encode({"audio_filepath": path}), rejected, Origin(path, 1))

    units = list(_units(surveyed))
    return Plan(
        units,
        sum(unit.num_records for unit in units) + len(files.unused),
        None,
        [*map(input_file, files.tables), *{each.transcript.path: each.transcript for each in surveyed}.values()],
        dict(Counter(rejected.reason.value for _, rejected in files.unused)),
        notes=list(files.notes),
        reject_lines=reject_lines,
    )


def survey(corpus: SlicedCorpus, conversations: Sequence[Conversation], num_workers: int) -> list[Surveyed]:
    """Read all transcripts, and check that there is a decoder for recordings that are compressed with shorten.

    Raises:
        UsageError: recordings are compressed with shorten, and this machine has no decoder.
    """
    starts = range(0, len(conversations), _SURVEYED_PER_TASK)
    tasks = [conversations[start : start + _SURVEYED_PER_TASK] for start in starts]
    surveyed = [each for results in map_in_order(partial(_surveyed, corpus), tasks, num_workers) for each in results]
    undecodable = [(each.undecodable, each.conversation.audio) for each in surveyed if each.undecodable is not None]
    if undecodable:
        coding, path = undecodable[0]
        raise UsageError(
            f"{len(undecodable):,} recordings are compressed with shorten ({coding}; the first is {path}), which "
            f"nothing on this machine decodes: {shorten.how_to_decode(coding)}"
        )
    return surveyed


def _surveyed(corpus: SlicedCorpus, conversations: Sequence[Conversation]) -> list[Surveyed]:
    surveyed = []
    for conversation in conversations:
        transcript, audio = input_file(conversation.transcript), conversation.audio
        num_lines, seconds, sphere = 0, 0.0, None
        for _, line in corpus.lines(conversation):
            num_lines += 1
            words = line.split(maxsplit=max(corpus.times) + 1)
            with contextlib.suppress(RecordRejected, IndexError):
                start, end = parse_span(*(decode_line(words[column]) for column in corpus.times))
                seconds += end - start
        # If the audio cannot be opened, the lines of the conversation are rejected later.
        with contextlib.suppress(RecordRejected), open_source(audio, audio) as source:
            sphere = shorten.shortened_sphere(source)
        undecodable = sphere.coding if sphere is not None and shorten.decoder(sphere.coding) is None else None
        surveyed.append(Surveyed(conversation, num_lines, seconds, transcript, undecodable))
    return surveyed


def _units(surveyed: Sequence[Surveyed]) -> Iterator[_Conversations]:
    for part, members in groupby(surveyed, key=lambda each: each.conversation.part):
        of_part = list(members)
        for number, start in enumerate(range(0, len(of_part), CONVERSATIONS_PER_UNIT)):
            chunk = of_part[start : start + CONVERSATIONS_PER_UNIT]
            seconds, num_lines = sum(each.seconds for each in chunk), sum(each.num_lines for each in chunk)
            yield _Conversations(f"{part}_{number:06d}", seconds, num_lines, part, chunk)


def _has_new_transcripts(corpus: SlicedCorpus, workspace: Workspace) -> bool:
    """Whether a recording that no transcript named in the finished run of `workspace` has a transcript now."""
    if not workspace.rejects_file.exists():
        return False
    missing = RejectReason.MISSING_TRANSCRIPT.value
    with naming(workspace.rejects_file), workspace.rejects_file.open("rb") as lines:
        rejects = map(msgspec.json.decode, lines)
        unlisted = {reject["audio_filepath"] for reject in rejects if reject["reject_reason"] == missing}
    return bool(unlisted) and any(each.audio in unlisted for each in corpus.find().conversations)


def _vocabulary(parts: Iterable[Path]) -> bytes:
    """The characters of all texts, one a line, sorted."""
    lines = (line for part in parts for line in part.read_bytes().splitlines())
    characters = sorted({character for line in lines for character in msgspec.json.decode(line)["text"]})
    return "".join(f"{character}\n" for character in characters).encode()


def _slices(
    corpus: SlicedCorpus, surveyed: Surveyed, writer: UnitWriter, min_duration: float
) -> Iterator[dict[str, Any]]:
    """Write the slices of a conversation, and yield their manifest records, sorted by label, then time.

    The transcript must be as it was when the run was planned. Lines that are in no slice become rejects.
    """
    conversation, _, _, transcript, _ = surveyed
    lines = [(line, Origin(transcript.path, number)) for number, line in corpus.lines(conversation)]
    if transcript.state is not None:
        check_unchanged(transcript.path, transcript.state, same_content=transcript.has_same_content)
    try:
        recording = _Recording(conversation.audio)
    except RecordRejected as rejected:
        for line, origin in lines:
            writer.reject(line, rejected, origin)
        return
    rate = recording.info.sampling_rate
    for label, pieces in sorted(_pieces(corpus, conversation, recording.info, lines, writer).items()):
        count = 0
        for group, seconds in _groups(pieces, rate, min_duration):
            try:
                if seconds < min_duration - _ROUNDING:
                    detail = f"the last {len(group)} utterances of {label} have {seconds:.2f} s together"
                    raise RecordRejected(RejectReason.BELOW_MIN_DURATION, detail)
                samples = np.concatenate([recording.samples_of(piece) for piece in group])
                audio = encode(samples, rate, "wav")
            except RecordRejected as rejected:
                for piece in group:
                    writer.reject(piece.line, rejected, piece.origin)
                continue
            count += 1
            name = f"{corpus.folders[conversation.part]}/{label}_{count:03d}.wav"
            writer.add(name, audio)
            writer.count(len(group), len(samples) / rate)
            writer.extra[_SLICES] += 1
            yield {
                "audio_filepath": name,
                "duration": len(samples) / rate,
                "text": " ".join(piece.utterance.text for piece in group),
                "speaker": group[0].utterance.speaker,
            }


def _pieces(
    corpus: SlicedCorpus,
    conversation: Conversation,
    info: AudioInfo,
    lines: Iterable[tuple[bytes, Origin]],
    writer: UnitWriter,
) -> dict[str, list[_Piece]]:
    """The usable utterances by label, sorted by time; other lines become rejects."""
    pieces: dict[str, list[_Piece]] = defaultdict(list)
    for line, origin in lines:
        try:
            utterance = corpus.utterance(conversation, decode_line(line))
            channel = utterance.channel
            if not utterance.text:
                raise RecordRejected(RejectReason.EMPTY_TEXT, "the text has no words left")
            if channel >= info.num_channels:
                detail = f"channel {channel} (from 0) is asked for, {conversation.audio} has {info.num_channels}"
                raise RecordRejected(RejectReason.BAD_FIELD, detail)
            start, num_samples = segment_samples(info, utterance.start, utterance.end - utterance.start)
        except RecordRejected as rejected:
            writer.reject(line, rejected, origin)
        else:
            pieces[utterance.label].append(_Piece(utterance, start, num_samples, line, origin))
    for of_label in pieces.values():
        of_label.sort(key=lambda piece: piece.start)
    return pieces


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


class _Recording:
    """A recording on disk, of which only the samples of pieces are read.

    A file that cannot be read in part, such as one compressed with shorten, is decoded at once: 19 MB for ten minutes
    of a telephone call.

    Raises:
        RecordRejected: MISSING_AUDIO if the file does not exist, UNREADABLE_AUDIO if it cannot be read or is truncated.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._decoded: NDArray[Any] | None = None  # of shape (num_samples, num_channels)
        take_in_hand(path)
        with open_source(path, path) as source:
            sphere = shorten.shortened_sphere(source)
            if sphere is not None:
                self._decoded = np.frombuffer(shorten.decode(source, sphere, path), "<i2")
                self._decoded = self._decoded.reshape(-1, sphere.num_channels)
                length, num_channels = self._decoded.shape
                info = AudioInfo(NOT_PASSABLE, "PCM_16", sphere.sampling_rate, length, num_channels, None)
                self.info = check_claims(info, source.size, path)
                return
        self.info = probe(path)
        if not self.info.is_passable:
            self._decoded = read_segment(path, self.info)

    def samples_of(self, piece: _Piece) -> NDArray[Any]:
        """The samples of a piece, of shape (num_samples,)."""
        start, length, channel = piece.start, piece.num_samples, piece.utterance.channel
        take_in_hand(self._path, start, length, channel)
        if self._decoded is not None:
            return self._decoded[start : start + length, channel]
        samples: NDArray[Any] = read_segment(self._path, self.info, start, length)[:, channel]
        return samples
