"""The index of the audio in the tars of a shard.

Worker processes read the whole tars and make the index, while the model still encodes earlier shards.
"""

import contextlib
import hashlib
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from prepcli.audio.opening import name_of
from prepcli.audio.probe import probe_bytes
from prepcli.audio.segments import SHAR_CODES, locate
from prepcli.commands.extend_codec_codes.file_segments import UsedSegment
from prepcli.commands.extend_codec_codes.plan import InputShard
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.audio_states import AudioState, States
from prepcli.formats.lenient_json import decode_json
from prepcli.formats.pairs import stem
from prepcli.formats.shar import RecordingLine
from prepcli.formats.shar_audio import tar_contents
from prepcli.manifest.shar_cuts import CutHead, decode_cuts, read_cuts
from prepcli.processes.in_hand import take_in_hand
from prepcli.storage.addresses import ByteRange
from prepcli.storage.input_files import state_of
from prepcli.storage.paths import AnyPath

TOLERANCE = 0.025
"""Seconds by which the length of audio may differ from the length in its recording manifest, which is in the same tar.
lhotse has the same tolerance (`lhotse.audio`)."""


Found = UsedSegment | RecordRejected | None
"""The audio in one field of a cut or record: a segment, or the reason why it is unusable. None: there is no audio (in a
tar: lhotse's placeholder)."""


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """The audio of the cuts of a shard, or of the records of a unit.

    Attributes:
        ids: the ids of the cuts; empty for records.
        seconds: the duration of each cut or record.
        fields: for each field, the audio of each cut or record.
        states: the state of the tar of each field; empty for records.
    """

    ids: list[str]
    seconds: list[float]
    fields: dict[str, list[Found]]
    states: States


def index_shard(shard: InputShard) -> ShardIndex:
    """Read the cuts and all tars of a shard, and return their index."""
    heads = decode_cuts(read_cuts(shard.cuts_file), str(shard.cuts), CutHead)
    ids = [head.id for head in heads]
    fields: dict[str, list[Found]] = {}
    states: States = {}
    for name, path in shard.tars.items():
        before = state_of(path)  # before reading, so that a change during reading is noticed later
        digest = hashlib.blake2b(digest_size=16)
        fields[name] = list(_find(ids, path, digest))
        states[name] = AudioState.of(before, digest.hexdigest())
    return ShardIndex(ids, [head.duration for head in heads], fields, states)


def _find(ids: list[str], tar: AnyPath, digest: "hashlib.blake2b") -> Iterator[Found]:
    """Yield the audio of each cut in `ids` from the tar, which has the cuts in the same order.

    `digest` is updated with all bytes of the tar.
    """
    pairs = tar_contents(tar, digest)
    for id in ids:
        try:
            data, content = next(pairs)
        except StopIteration:
            yield RecordRejected(RejectReason.MISSING_AUDIO, f"{tar} ends before this cut")
        except (tarfile.TarError, EOFError) as error:
            yield RecordRejected(RejectReason.MISSING_AUDIO, f"{tar} is broken before this cut: {error}")
        else:
            if (name := stem(data.name)) != id:
                yield RecordRejected(RejectReason.MISSING_AUDIO, f"{tar} has {name} in the place of this cut")
            else:
                yield None if content is None else _examine(str(tar), data, *content)
    with contextlib.suppress(tarfile.TarError, EOFError):  # members without a cut are a part of the digest too
        for _ in pairs:
            pass


def _examine(path: str, data: tarfile.TarInfo, audio: bytes, digest: bytes, manifest: bytes) -> Found:
    try:
        recording = decode_json(manifest, RecordingLine)
    except (msgspec.DecodeError, ValueError) as error:
        return RecordRejected(RejectReason.BAD_FIELD, f"{path}: {data.name}: its manifest is not a recording: {error}")
    source = ByteRange(path, data.offset_data, len(audio))
    try:
        take_in_hand(name_of(source))
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
    # The audio has the length in the manifest, or its own length if that is less.
    segment = locate(source, info, 0.0, None, None, SHAR_CODES)
    return UsedSegment(segment._replace(num_samples=min(info.num_samples, recording.num_samples)), digest)
