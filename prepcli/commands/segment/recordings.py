"""Cuts one recording: finds its speech, words or windows, and makes the fields of its segments and rejects."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from prepcli.audio.segments import Segment, mono_blocks
from prepcli.commands.segment import windows
from prepcli.commands.segment.packing import PAUSE, Piece, Rules, Speech, pack
from prepcli.commands.segment.speech import Power, speech_in
from prepcli.commands.segment.texts import ByMiddle, Item, Recording, items_of, speech_of
from prepcli.errors import RecordRejected, RejectReason, option
from prepcli.formats.times.timed import Timed
from prepcli.models.silero import speech_probabilities


class SegmentSettings(NamedTuple):
    """How recordings are cut; lengths are in seconds. See the options of the command."""

    by: str
    shortest: float
    longest: float
    join_pause: float
    pad: float
    same_speaker: bool
    end_at: str
    overlap: str
    whisper_times: bool
    has_rttm: bool

    def rules(self, rate: int) -> Rules:
        """The rules in samples at `rate` Hz; a segment may have one sample at least."""
        return Rules(
            shortest=round(self.shortest * rate),
            longest=max(round(self.longest * rate), 1),
            join_pause=round(self.join_pause * rate),
            pad=round(self.pad * rate),
            pause=round(PAUSE * rate),
            same_speaker=self.same_speaker,
            at_pauses=self.end_at == "pause",
            prefers_pauses=self.end_at == "any",
        )


class Cut(NamedTuple):
    """The result of cutting a recording.

    Attributes:
        pieces: its segments, and the parts that are left out; together with pauses all of its samples.
        items: the words or lines of each piece.
        texts: for each piece, the text that replaces that of its items, or None.
        outside: words or lines without any sample of the recording.
        detail: why all is left out, if it is.
    """

    pieces: Sequence[Piece]
    items: Sequence[Sequence[Item]]
    texts: Sequence[str | None]
    outside: Sequence[Item] = ()
    detail: str = ""


def cut(segment: Segment, lines: Sequence[Timed] | None, offset: float | None, settings: SegmentSettings) -> Cut:
    """Cut a recording.

    Args:
        segment: its audio.
        lines: its texts with times; None if there are none.
        offset: the seconds at which the audio begins in its file, if the times are those of the file; else None.
        settings: how.

    Raises:
        RecordRejected: the audio cannot be decoded, or there is nothing to make a segment of.
    """
    rate, rules = segment.info.sampling_rate, settings.rules(segment.info.sampling_rate)
    if settings.by == "speech":
        power = Power(rate)
        probabilities = speech_probabilities(power.measured(mono_blocks(segment)), rate)
        spans = speech_in(probabilities, power, segment.num_samples, rate, rules)
        pieces = list(pack(spans, segment.num_samples, rules))
        made = Cut(pieces, [()] * len(pieces), [None] * len(pieces))
    else:
        is_whole = segment.has_all_samples or offset is None
        recording = Recording(segment.num_samples, rate, offset or 0.0, is_whole, settings.has_rttm)
        made = _Texts(lines, recording, settings, rules).cut()
    if not made.pieces and not made.outside:
        what = "the detector finds no speech" if lines is None else "its texts with times have no words and no lines"
        raise RecordRejected(RejectReason.NO_SPEECH, what)
    return made


class _Texts:
    """The words or lines of a recording."""

    def __init__(
        self, lines: Sequence[Timed] | None, recording: Recording, settings: SegmentSettings, rules: Rules
    ) -> None:
        self._lines, self._recording, self._settings, self._rules = lines, recording, settings, rules
        items = items_of(lines or (), recording, by_word=not settings.whisper_times)
        self._items = [item for item in items if item.end > item.start]
        self._outside = [item for item in items if item.end <= item.start]

    def cut(self) -> Cut:
        """The pieces.

        Raises:
            RecordRejected: MISSING_FIELD for Whisper's timestamps, if there are no lines.
        """
        is_timed = self._settings.whisper_times
        if is_timed and any(item.is_word for item in self._items):
            raise RecordRejected(RejectReason.MISSING_FIELD, "its words are in no lines, which timestamps enclose")
        if self._settings.by == "times":
            prefers = self._rules.prefers_pauses and any(item.is_word for item in self._items)
            rules = self._rules._replace(prefers_pauses=prefers)
            pieces: Sequence[Piece] = list(pack(self._spans, self._recording.length, rules))
        else:
            pieces = self._windows()
        found, rate = ByMiddle(self._items), self._recording.rate
        items = [found.within(piece.start, piece.end) for piece in pieces]
        texts: list[str | None]
        if is_timed:
            texts = [windows.timed_text(self._spans, self._items, piece, rate) for piece in pieces]
        else:  # a window without words has an empty text, if there are texts at all
            has_text = any(item.text for item in self._items)
            texts = [None if inside or not has_text else "" for inside in items]
        return Cut(pieces, items, texts, self._outside)

    @cached_property
    def _spans(self) -> list[Speech]:
        drops = self._settings.by == "times" and self._settings.overlap == "drop"
        overlap = RejectReason.OVERLAP if drops else None
        return speech_of(self._items, self._settings.end_at, self._recording.rate, overlap)

    def _windows(self) -> Sequence[Piece]:
        length = self._recording.length
        if self._lines is None or self._settings.has_rttm:
            return list(windows.grid(length, self._rules))
        cut = windows.for_whisper if self._settings.whisper_times else windows.around_texts
        return list(cut(self._spans, length, self._rules))


def detail_of(piece: Piece, items: Sequence[Item], rate: int, settings: SegmentSettings) -> str:
    """Why a piece is left out, for its reject."""
    seconds = f"{piece.length / rate:.2f} s"
    if piece.reason is RejectReason.BELOW_MIN_DURATION:
        return f"{seconds} is less than {option('--min', f'{settings.shortest:g}')}"
    if piece.reason is RejectReason.OVERLAP:
        speakers = list(dict.fromkeys(item.speaker for item in items if item.speaker))
        whose = f" of {', '.join(speakers[:3])}" if len(speakers) > 1 else ""
        return f"{len(items)} words or lines{whose} overlap in these {seconds}"
    if piece.reason is RejectReason.TOO_LONG:
        flag = "--window" if settings.by == "windows" else "--max"
        return f"{seconds} without a place to cut is more than {option(flag, f'{settings.longest:g}')} with margins"
    found = next((item.reason for item in items if item.reason), None)
    return found.detail if found else str(piece.reason)
