"""Index of the audio in the tars of a shard: read sequentially in a worker process, ahead of the model."""

import contextlib
import hashlib
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from prepcli.audio.encode import to_float32
from prepcli.audio.probe import probe_bytes
from prepcli.audio.read import read_segment
from prepcli.audio.source import refuse
from prepcli.commands.extend_codec_codes.file_segments import FileSegment
from prepcli.commands.extend_codec_codes.plan import InputShard, read_heads
from prepcli.commands.extend_codec_codes.resampling import SincResampler
from prepcli.errors import InputChangedError, RecordRejected, RejectReason, naming
from prepcli.formats.audio_states import AudioState, States
from prepcli.formats.pairs import stem
from prepcli.formats.shar import RecordingLine, decode_json
from prepcli.formats.shar_audio import tar_contents
from prepcli.jobs.prefetch import Samples
from prepcli.manifest.shar_cuts import read_cuts
from prepcli.processes.in_hand import take_in_hand
from prepcli.storage.addresses import is_address
from prepcli.storage.ahead import ObjectRange, piece_of, reading_ahead
from prepcli.storage.input_files import state_of

TOLERANCE = 0.025
"""Seconds by which audio may differ from its manifest; lhotse's own limit (`lhotse.audio`)."""


class Member(NamedTuple):
    """A segment's encoded audio in a tar; members with one `digest` are the same bytes."""

    tar: str
    offset: int
    size: int
    digest: bytes
    sampling_rate: int
    num_samples: int

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.num_samples / self.sampling_rate

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"byte {self.offset} of {self.tar}"


Found = Member | FileSegment | RecordRejected | None
"""The content of a field: audio in a tar or a file, unusable audio, or nothing (in a tar lhotse's placeholder)."""


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """Ids and durations (seconds) of a shard's cuts, and for each field the contents and the state of the tar."""

    ids: list[str]
    seconds: list[float]
    fields: dict[str, list[Found]]
    states: States


def index_shard(shard: InputShard) -> ShardIndex:
    """Read a shard."""
    heads = read_heads(shard, read_cuts(shard.cuts_file))
    ids = [head.id for head in heads]
    fields: dict[str, list[Found]] = {}
    states: States = {}
    for name, path in shard.tars.items():
        before = state_of(path)  # before it is read: what changes meanwhile is seen next time
        digest = hashlib.blake2b(digest_size=16)
        fields[name] = list(_find(ids, path, digest))
        states[name] = AudioState.of(before, digest.hexdigest())
    return ShardIndex(ids, [head.duration for head in heads], fields, states)


def _find(ids: list[str], tar: Path, digest: "hashlib.blake2b") -> Iterator[Found]:
    """The content of the tar for each cut; all of it is added to `digest`."""
    pairs = _pairs(tar, digest)
    for id in ids:
        try:
            name, found = next(pairs)
        except StopIteration:
            yield RecordRejected(RejectReason.MISSING_AUDIO, f"{tar} ends before this cut")
        except (tarfile.TarError, EOFError) as error:
            pairs = iter(())
            yield RecordRejected(RejectReason.MISSING_AUDIO, f"{tar} is broken before this cut: {error}")
        else:
            if name != id:
                found = RecordRejected(RejectReason.MISSING_AUDIO, f"{tar} has {name} in the place of this cut")
            yield found
    with contextlib.suppress(tarfile.TarError, EOFError):  # what no cut has is a part of the digest as well
        for _ in pairs:
            pass


def _pairs(tar: Path, digest: "hashlib.blake2b") -> Iterator[tuple[str, Found]]:
    """Name without extension and content of each pair of data and manifest; both are added to `digest`."""
    for data, content in tar_contents(tar, digest):
        yield stem(data.name), None if content is None else _examine(str(tar), data, *content)


def _examine(path: str, data: tarfile.TarInfo, audio: bytes, digest: bytes, manifest: bytes) -> Found:
    try:
        recording = decode_json(manifest, RecordingLine)
    except (msgspec.DecodeError, ValueError) as error:
        return RecordRejected(RejectReason.BAD_FIELD, f"{path}: {data.name}: its manifest is not a recording: {error}")
    try:
        take_in_hand(_name(path, data.offset_data))
        info = probe_bytes(audio, data.name)
    except RecordRejected as rejected:
        return rejected
    if abs(info.num_samples - recording.num_samples) > TOLERANCE * info.sampling_rate or (
        info.sampling_rate != recording.sampling_rate
    ):
        return RecordRejected(
            RejectReason.UNREADABLE_AUDIO,
            f"{data.name} has {info.num_samples} samples at {info.sampling_rate} Hz, its manifest says "
            f"{recording.num_samples} at {recording.sampling_rate}",
        )
    # Readers get the length in the manifest, or less if there is less audio.
    num_samples = min(info.num_samples, recording.num_samples)
    return Member(path, data.offset_data, len(audio), digest, info.sampling_rate, num_samples)


def _name(tar: str, offset: int) -> str:
    """What notes call a member, in every run."""
    return f"audio at {offset} in {tar}"


class MemberDecoder:
    """Decodes members to mono float32 samples for a codec, in a worker process."""

    def __init__(self, sampling_rate: int | None) -> None:
        """`sampling_rate` in Hz to resample to, or None for each member's own."""
        self._resample = SincResampler(sampling_rate)

    def ahead(self, members: Sequence[Member]) -> Iterator[Member]:
        """The members in order; of a tar in an object store, several are requested at once."""
        return reading_ahead(members, _pieces) if any(is_address(one.tar) for one in members) else iter(members)

    def decode(self, member: Member) -> Samples:
        """The samples (n,) of a member; the first of several channels.

        Raises:
            RecordRejected: UNREADABLE_AUDIO or MISSING_AUDIO.
        """
        name = _name(member.tar, member.offset)
        take_in_hand(name)
        try:
            data = _read(member)
        except OSError as error:
            refuse(error, member.tar)
        info = probe_bytes(data, name)
        samples = read_segment(data, info, 0, min(info.num_samples, member.num_samples), name=name)
        return self._resample(to_float32(samples[:, 0]), member.sampling_rate)


def _read(member: Member) -> bytes:
    """The bytes of a member.

    Raises:
        InputChangedError: the tar is in an object store, and was replaced since it was indexed.
    """
    if not is_address(member.tar):
        with naming(member.tar), Path(member.tar).open("rb") as file:
            file.seek(member.offset)
            return file.read(member.size)
    data = piece_of(*_pieces(member))
    if hashlib.blake2b(data, digest_size=16).digest() != member.digest:
        raise InputChangedError(
            f"{member.tar} was changed during the run, which has stopped; let nothing write to it and run the same "
            "command again"
        )
    return data


def _pieces(member: Member) -> list[ObjectRange]:
    return [ObjectRange(member.tar, member.offset, member.size)] if is_address(member.tar) else []
