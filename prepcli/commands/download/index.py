"""The index of a data set: a line per utterance, written once, for planning and for processing."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from itertools import groupby, islice
from pathlib import Path
from tempfile import TemporaryFile

import msgspec

from prepcli.audio.probe import probe
from prepcli.commands.download.data_set import CorpusPart, Utterance, may_lie_outside
from prepcli.commands.download.recordings import PublishedRecordings
from prepcli.engine.publishing.rejects import RETRYABLE
from prepcli.engine.state.workspace import atomic_file
from prepcli.errors import RecordRejected, RejectReason, UsageError, naming, option
from prepcli.gate import TEXT_FIELDS, FirstPlaces, SeenIds, checked_fields
from prepcli.manifest.line_slices import LineSlice, LineSlices

UNIT_LINES = 64
"""Maximum number of utterances per unit of work; an interrupted run repeats at most this number per worker."""
_WORDS = {"text": "words", "normalized_text": "normalized text"}
"""Names of the fields in messages: an empty field means that the line has none of these."""
_FIELDS = [(field.name, field.default) for field in fields(Utterance)]


def write_index(data_set: CorpusPart, root: Path, file: Path) -> int:
    """Read the utterances of a data set and write their index to `file`, completely or not at all.

    After the utterances come the recordings that no published list names, as rejects. `root` is the folder that the
    unpacked archive is in: the data root or, before the move to it, another folder.

    Returns:
        The number of utterances.

    Raises:
        OSError: a file cannot be read.
        AccountingError: the recordings are not those of the index and those that other lists name.
    """
    count, listing, seen = 0, PublishedRecordings(), defaultdict[str, SeenIds](SeenIds)
    folder = data_set.copy or root / data_set.top
    with naming(file), TemporaryFile(dir=file.parent) as draft:
        for line in data_set.read(folder):
            _check(line, folder)
            if line.reason is None:
                seen[line.manifest].add(_id(line))
            listing.add(line.source)
            draft.write(_encoded(line, data_set, root))
            count += 1
        for source in data_set.named(folder):
            listing.add(source)
        for source in listing.unlisted(folder, data_set.recordings):
            name = source.encode(errors="backslashreplace").decode()  # a file name may not be UTF-8
            reason, detail = RejectReason.MISSING_TRANSCRIPT, "no transcript names it"
            draft.write(_encoded(Utterance("", name, {}, name, reason=reason, detail=detail), data_set, root))
        draft.seek(0)
        repeated = {manifest: ids.repeated() for manifest, ids in seen.items()}
        with atomic_file(file, durable=False) as out:
            out.writelines(_without_repeated(draft, repeated) if any(repeated.values()) else draft)
    return count


def _check(line: Utterance, folder: Path) -> None:
    """Complete an utterance by its duration, or by the reason why it cannot be used."""
    if line.reason is None:
        try:
            if any("\ufffd" in str(value) for value in line.fields.values()):
                raise RecordRejected(RejectReason.NOT_UTF8, "the text is not UTF-8")
            line.fields = checked_fields(line.fields)
            for name in TEXT_FIELDS:
                if not line.fields.get(name, "" if name == "text" else name).strip():
                    raise RecordRejected(RejectReason.MISSING_FIELD, f"the line has no {_WORDS[name]}")
            if any(map(may_lie_outside, (line.source, line.target or ""))):
                raise RecordRejected(RejectReason.BAD_FIELD, f"{line.source!r} may lie outside of the corpus")
            if line.duration is None:
                line.duration = probe(folder / line.source).duration
        except RecordRejected as rejected:
            line.reason, line.detail = rejected.reason, rejected.detail
    # In an index, a duration of 0 is left out, and so is the duration of an utterance that cannot be used.
    line.duration = (line.duration or None) if line.reason is None else None


def _id(line: Utterance) -> str:
    return line.id or os.path.splitext(os.path.basename(line.source))[0]


def _encoded(line: Utterance, data_set: CorpusPart, root: Path) -> bytes:
    """The line of the index for an utterance, whose paths are relative to the folder of the corpus."""
    if data_set.copy is not None:
        line.source = str(data_set.copy / line.source) if line.source else ""
    else:
        line.source = os.path.join(data_set.top, line.source) if line.source else ""
        # While a corpus is unpacked it is in a temporary folder, but messages must have the final path
        line.detail = line.detail.replace(f"{root}/", "")
    return _line_of(line)


def _line_of(utterance: Utterance) -> bytes:
    """The line of the index for an utterance; values that are the default are left out."""
    values = {name: value for name, default in _FIELDS if (value := getattr(utterance, name)) != default}
    return msgspec.json.encode(values) + b"\n"


def _without_repeated(lines: Iterable[bytes], repeated: Mapping[str, frozenset[int]]) -> Iterator[bytes]:
    """Yield the lines of an index; the second and each further usable one with the same id in a manifest is a reject.

    `repeated`: for each manifest, the hashes of ids that may occur several times.
    """
    decoder = msgspec.json.Decoder(Utterance)
    places = {manifest: FirstPlaces(hashes) for manifest, hashes in repeated.items()}
    for raw in lines:
        line = decoder.decode(raw)
        if line.reason is not None:
            yield raw
            continue
        try:
            places[line.manifest].check(_id(line), line.where)
            yield raw
        except RecordRejected as rejected:
            line.reason, line.detail, line.duration = rejected.reason, rejected.detail, None
            yield _line_of(line)


def is_repaired(before: Path, now: Path) -> bool:
    """Whether two indexes of a corpus differ only because what was missing or unreadable was repaired.

    False if they are equal. An utterance of `before` may differ only if its audio was not usable, and its text is the
    same. Utterances that are new in `now` must be unusable, or belong to recordings that no transcript named before.
    All other utterances of `before` must be in `now`.
    """
    known: dict[tuple[str, str], tuple[bytes, str | None]] = {}
    unlisted: dict[tuple[str, str], str] = {}
    for raw, line in _raw_lines(before):
        key, retryable = (line.manifest, line.where), line.reason is not None and line.reason.value in RETRYABLE
        if line.reason is RejectReason.MISSING_TRANSCRIPT:
            unlisted[key] = line.source
        known[key] = sha256(raw).digest(), line.fields.get("text") if retryable else None
    waiting, listed, differ = set(unlisted.values()), set[str](), False
    for raw, line in _raw_lines(now):
        key = line.manifest, line.where
        digest, text = known.pop(key, (b"", None))
        if line.reason is not RejectReason.MISSING_TRANSCRIPT and line.source in waiting:
            listed.add(line.source)
        if sha256(raw).digest() == digest:
            continue
        differ = True
        is_new = not digest and (line.reason is not None or line.source in waiting)
        if not is_new and (text is None or text != line.fields.get("text")):
            return False
    return differ and all(unlisted.get(key) in listed for key in known)


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
        rejects, digest, offset = Counter[str](), sha256(), 0
        try:
            for manifest, lines in groupby(_raw_lines(file), key=lambda one: one[1].manifest):
                while batch := list(islice(lines, UNIT_LINES)):
                    data = b"".join(raw for raw, _ in batch)
                    usable = [line for _, line in batch if line.reason is None]
                    if usable:
                        id, seconds = f"batch_{len(self.batches):05d}", sum(line.duration or 0.0 for line in usable)
                        place = 0, offset, len(data), self.records + 1
                        self.batches.append(LineRange(id, seconds, len(usable), *place, manifest))
                    rejects.update(line.reason.value for _, line in batch if line.reason is not None)
                    digest.update(data)
                    offset += len(data)
                    self.records += len(batch)
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(
                f"{file} cannot be read ({error}); give {option('--overwrite')} to make it again"
            ) from error
        self.rejects, self.sha256 = dict(rejects), digest.hexdigest()

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
