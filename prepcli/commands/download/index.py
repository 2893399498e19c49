"""The index of a data set: a line per utterance, written once, for planning and for processing."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec

from prepcli.audio.probe import probe
from prepcli.commands.download.data_set import CorpusPart, Utterance, may_lie_outside
from prepcli.engine.publishing.rejects import RETRYABLE
from prepcli.engine.state.workspace import atomic_file
from prepcli.errors import RecordRejected, RejectReason, UsageError, naming, option
from prepcli.manifest.line_slices import LineSlice, LineSlices

UNIT_LINES = 64
"""Maximum number of utterances per unit of work; an interrupted run repeats at most this number per worker."""


def write_index(data_set: CorpusPart, root: Path, file: Path) -> int:
    """Read the utterances of a data set and write their index to `file`, completely or not at all.

    `root` is the folder that the unpacked archive is in: the data root or, before the move to it, another folder.

    Returns:
        The number of utterances.

    Raises:
        OSError: a file cannot be read.
    """
    count, targets = 0, set[str]()
    folder = data_set.copy or root / data_set.top
    with atomic_file(file, durable=False) as out:
        for utterance in data_set.read(folder):
            line = _checked(utterance, folder, targets)
            if data_set.copy is not None:
                line.source = str(folder / line.source) if line.source else ""
            else:
                line.source = os.path.join(data_set.top, line.source) if line.source else ""
                # While a corpus is unpacked it is in a temporary folder, but messages must have the final path
                line.detail = line.detail.replace(f"{root}/", "")
            out.write(msgspec.json.encode(line) + b"\n")
            count += 1
    return count


def _checked(utterance: Utterance, folder: Path, targets: set[str]) -> Utterance:
    """A copy of an utterance with its duration, or with the reason why it cannot be used.

    `targets` holds the WAV files of earlier utterances. The WAV file of this utterance is added to it.
    """
    line = msgspec.structs.replace(utterance)
    if line.reason is None:
        if any("\ufffd" in str(value) for value in line.fields.values()):
            line.reason, line.detail = RejectReason.NOT_UTF8, "the text is not UTF-8"
        elif any(map(may_lie_outside, (line.source, line.target or ""))):
            line.reason, line.detail = RejectReason.BAD_FIELD, f"{line.source!r} may lie outside of the corpus"
        elif line.target in targets:
            line.reason, line.detail = RejectReason.BAD_FIELD, "an utterance of this name was there before"
    if line.reason is None:
        if line.target is not None:
            targets.add(line.target)
        try:
            if line.duration is None:
                line.duration = probe(folder / line.source).duration
        except RecordRejected as rejected:
            line.reason, line.detail = rejected.reason, rejected.detail
    # In an index, a duration of 0 is left out, and so is the duration of an utterance that cannot be used.
    line.duration = (line.duration or None) if line.reason is None else None
    return line


def only_audio_came_back(before: Path, now: Path) -> bool:
    """Whether two indexes of a corpus differ only because missing or unreadable audio was repaired.

    False if they are equal. `now` must have all utterances of `before`. An utterance may differ only if its audio was
    not usable in `before`, and its text is the same. Utterances that are new in `now` must be unusable, such as
    recordings that no transcript names.
    """
    known: dict[tuple[str, str], tuple[bytes, str | None]] = {}
    for raw, line in _raw_lines(before):
        retryable = line.reason is not None and line.reason.value in RETRYABLE
        known[line.manifest, line.where] = sha256(raw).digest(), line.fields.get("text") if retryable else None
    differ = False
    for raw, line in _raw_lines(now):
        digest, text = known.pop((line.manifest, line.where), (b"", None))
        if sha256(raw).digest() == digest:
            continue
        differ = True
        is_new_reject = not digest and line.reason is not None  # true for a recording that no transcript names
        if not is_new_reject and (text is None or text != line.fields.get("text")):
            return False
    return differ and not known


def _raw_lines(file: Path) -> Iterator[tuple[bytes, Utterance]]:
    decoder = msgspec.json.Decoder(Utterance)
    with naming(file), file.open("rb") as lines:
        for raw in lines:
            yield raw, decoder.decode(raw)


@dataclass(frozen=True, slots=True)
class LineRange(LineSlice):
    """A unit of work: consecutive lines of the index, all for one manifest."""

    manifest: str


class LineIndex:
    """An index divided into units of work. It keeps in memory a few numbers per unit, not the lines."""

    def __init__(self, file: Path) -> None:
        """Read the index once.

        Raises:
            UsageError: the index does not exist, or is damaged.
        """
        self.file = file
        self.batches: list[LineRange] = []
        self._slices = LineSlices(plain=[str(file)])
        self.records = 0
        self.rejects: dict[str, int] = {}
        digest = sha256()
        begin, first, manifest, seconds, usable = 0, 1, "", 0.0, 0
        offset = 0
        try:
            for number, (raw, line) in enumerate(_raw_lines(file), start=1):
                digest.update(raw)
                if line.manifest != manifest or number - first >= UNIT_LINES:
                    self._add(seconds, usable, begin, offset, first, manifest)
                    begin, first, manifest, seconds, usable = offset, number, line.manifest, 0.0, 0
                if line.reason is None:
                    seconds += line.duration or 0.0
                    usable += 1
                else:
                    self.rejects[line.reason.value] = self.rejects.get(line.reason.value, 0) + 1
                offset += len(raw)
                self.records = number
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(
                f"{file} cannot be read ({error}); give {option('--overwrite')} to make it again"
            ) from error
        self._add(seconds, usable, begin, offset, first, manifest)
        self.sha256 = digest.hexdigest()

    def _add(self, seconds: float, usable: int, begin: int, end: int, first: int, manifest: str) -> None:
        if usable:
            id = f"batch_{len(self.batches):05d}"
            self.batches.append(LineRange(id, seconds, usable, 0, begin, end - begin, first, manifest))

    def lines(self, batch: LineRange) -> Iterator[tuple[int, Utterance]]:
        """Yield the usable utterances of a unit, each with its line number in the index, from 1."""
        for number, raw in self._slices.lines(batch):
            line = msgspec.json.decode(raw, type=Utterance)
            if line.reason is None:
                yield number, line

    def unusable(self) -> Iterator[tuple[int, Utterance]]:
        """Yield the utterances that cannot be used, each with its line number in the index, from 1."""
        for number, (_, line) in enumerate(_raw_lines(self.file), start=1):
            if line.reason is not None:
                yield number, line
