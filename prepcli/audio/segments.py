"""Segments of audio: finds their samples, decodes or encodes them, and has the rules of each command (`Policy`).

A source of audio is a file, an object in a store, a range of the bytes of either, such as a member of a tar, or bytes
in memory, such as a value of a Parquet column.
"""

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from prepcli.audio.channels import MIX, Channel, chosen_channel, mean_of_channels, mono
from prepcli.audio.check import check_copy, check_decoded
from prepcli.audio.encode import WRITABLE, encodable_rate, encode, lossless_subtype
from prepcli.audio.info import AudioInfo
from prepcli.audio.limits import SAME_SECONDS, segment_samples
from prepcli.audio.opening import AudioSource, name_of, read_whole
from prepcli.audio.read import read_blocks, read_segment
from prepcli.audio.resample import resample
from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.audio_names import WENET_FORMATS
from prepcli.interface.printing import number_of
from prepcli.processes.in_hand import take_in_hand
from prepcli.processes.notes import note

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray


class Samples(Enum):
    """The samples that a command takes from a file for a record, in words for a table in `docs/formats.md`."""

    FILE = "the whole file, of which the manifest names the segment"
    NEARLY = "the whole file if the record begins with it and ends less than 20 ms before its end, else the record's"
    EXACT = "the record's"
    STORED = "those in the tar, up to the length in the cut"


class Channels(Enum):
    """The channels that are taken from a file with several channels, if `--channel` is not given."""

    ALL = "all"
    NAMED = "the record's `channel`, else all"
    ONE = "the record's `channel`, else the first"
    MEAN = "the record's `channel`, else the mean of all"
    FIRST = "the first"


class Again(Enum):
    """The audio format that a command writes if it cannot copy a file, in words for a table in `docs/formats.md`.

    A format that cannot be written is replaced by FLAC.
    """

    OWN = "`--force-codec`, else the file's"
    SHAR = "`--audio-format`; with `original` the file's"
    LOSSLESS = "`--force-codec`, else WAV for WAV and FLAC for all others"
    FLAC = "FLAC, or `--force-codec ogg`"
    PAGE = "FLAC or WAV of 16 bits"
    NOTHING = "nothing is encoded"


class Policy(NamedTuple):
    """How a command (the writer) takes the audio of a record from a file, and in which format it writes the audio.

    A file is copied byte for byte if all of its samples and channels are taken, and if neither its format nor its rate
    must change.

    Attributes:
        writer: the command, with the option that chooses the policy, if there is one.
        samples: which samples are taken.
        channels: which channels are taken without `--channel`.
        rate: the sampling rate, for the documentation.
        again: the format of audio that cannot be copied and is encoded.
        why: the needs of the programs that read the output, for the documentation.
        formats: the formats that those programs can read; None: all formats that libsndfile reads.
        chosen: the value of `--channel`. A number is the channel of records that do not name one. `mix` is the mean of
            all channels, whatever a record names.
    """

    writer: str
    samples: Samples
    channels: Channels
    rate: str
    again: Again
    why: str
    formats: frozenset[str] | None = None
    chosen: Channel | None = None


@lru_cache(maxsize=16)
def with_channel(policy: Policy, channel: str | None) -> Policy:
    """Return the policy with the value of `--channel`; raises as `chosen_channel`."""
    return policy._replace(chosen=chosen_channel(channel))


_ITS_OWN = "the file's, or `--target-sample-rate`"
TARRED = Policy(
    "manifest-to-tarred",
    Samples.FILE,
    Channels.ALL,
    _ITS_OWN,
    Again.OWN,
    "NeMo cuts the segments while it reads, and selects channels itself",
)
TARRED_SLICES = Policy(
    "manifest-to-tarred --slice-with-offset",
    Samples.EXACT,
    Channels.ALL,
    _ITS_OWN,
    Again.OWN,
    "NeMo reads a member as a whole if it is less than 0.2 s longer than its line, so it is cut exactly",
)
SHAR = Policy(
    "manifest-to-shar",
    Samples.EXACT,
    Channels.ONE,
    _ITS_OWN,
    Again.SHAR,
    "lhotse makes batches by the duration of a cut, which is that of the manifest; Magpie-TTS reads mono",
)
WENET = Policy(
    "manifest-to-wenet",
    Samples.NEARLY,
    Channels.NAMED,
    _ITS_OWN,
    Again.LOSSLESS,
    "WeNet measures what it decodes, so a duration that was rounded need not change the file",
    WENET_FORMATS,
)
WENET_RAW = Policy(
    "manifest-to-wenet --raw",
    Samples.NEARLY,
    Channels.NAMED,
    "the file's",
    Again.NOTHING,
    "the list names files and seconds, and no channel: a record of another than the first is a reject",
)
PARQUET = Policy(
    "manifest-to-parquet",
    Samples.NEARLY,
    Channels.NAMED,
    _ITS_OWN,
    Again.LOSSLESS,
    "as WeNet: length and rate come from the header of the audio",
    frozenset(WRITABLE),
)
OMNILINGUAL = Policy(
    "manifest-to-parquet --form omnilingual",
    Samples.NEARLY,
    Channels.MEAN,
    "16 kHz",
    Again.FLAC,
    "omnilingual-asr reads mono at 16 kHz; the column with the length has that of the audio",
    frozenset(("flac", "ogg")),
)
MELS = Policy(
    "manifest-to-mels",
    Samples.NEARLY,
    Channels.ONE,
    "`--sampling-rate`",
    Again.NOTHING,
    "a mel belongs to a line of the list of audio, which names whole files; trainers read mono",
)
CONVERT = Policy(
    "convert-audio",
    Samples.NEARLY,
    Channels.NAMED,
    _ITS_OWN,
    Again.LOSSLESS,
    "files for any reader: a duration that was rounded need not change the file",
)
CONTEXT = Policy(
    "extend-context-audio", Samples.EXACT, Channels.ONE, "the model's", Again.NOTHING, "a voice is a mono segment"
)
CODES = Policy(
    "extend-codec-codes of a manifest",
    Samples.EXACT,
    Channels.ONE,
    "the codec's",
    Again.NOTHING,
    "a codec encodes mono; the codes are as long as the record",
)
SHAR_CODES = Policy(
    "extend-codec-codes of a Shar set",
    Samples.STORED,
    Channels.FIRST,
    "the codec's",
    Again.NOTHING,
    "the codes are as long as what lhotse reads",
)
DUPLICATES = Policy(
    "find-duplicates", Samples.NEARLY, Channels.NAMED, "the file's", Again.NOTHING, "a rounded duration hides no copy"
)
SCORE = Policy(
    "score", Samples.NEARLY, Channels.NAMED, "the file's", Again.NOTHING, "a rounded duration cuts off no sound"
)
CONVERSATION = Policy(
    "conversations-to-tarred",
    Samples.NEARLY,
    Channels.ONE,
    _ITS_OWN,
    Again.LOSSLESS,
    "NeMo reads a turn by its duration; speech language models read mono",
    frozenset(WRITABLE),
)
SEGMENT = Policy(
    "segment", Samples.NEARLY, Channels.MEAN, "16 kHz for the detector", Again.NOTHING, "speech may be in any channel"
)
PAGE = Policy("inspect --html", Samples.EXACT, Channels.ONE, "the file's", Again.PAGE, "a page plays a few seconds")
POLICIES: tuple[Policy, ...] = tuple(value for value in vars().values() if isinstance(value, Policy))
"""The policies of all commands; `docs/formats.md` has the table."""


class TargetFormat(NamedTuple):
    """The properties that encoded audio should have.

    Attributes:
        format: "wav", "flac", "mp3", "ogg" or "opus"; None leaves it to the policy.
        sampling_rate: in Hz; None keeps the rate of the source.
    """

    format: str | None = None
    sampling_rate: int | None = None

    def is_met_by(self, info: AudioInfo) -> bool:
        """Return whether a file whose properties are `info` meets the target, so that it can be copied unchanged."""
        return (
            info.is_passable and self.format in (None, info.format) and self.sampling_rate in (None, info.sampling_rate)
        )


@dataclass(frozen=True, slots=True)
class EncodedAudio:
    """An encoded file in memory.

    Attributes:
        data: the bytes of the file.
        format: the format, which is also the file extension.
        sampling_rate: in Hz.
        num_samples: number of samples that were encoded; a lossy codec may decode to more, or fewer.
        is_copy: whether the bytes are those of the source.
    """

    data: bytes
    format: str
    sampling_rate: int
    num_samples: int
    is_copy: bool = False


class Segment(NamedTuple):
    """A range of samples of an audio source; it ends within the length that the header gives.

    Segments that compare equal have the same audio.

    Attributes:
        source: the audio that is decoded.
        info: the properties of the source.
        start: the first sample, at the rate of the source.
        num_samples: at the rate of the source.
        channel: a number from 0, or `MIX` for the mean of all channels; None: all channels, also of mono audio.
        name: the name of the source, for messages.
    """

    source: AudioSource
    info: AudioInfo
    start: int
    num_samples: int
    channel: Channel | None
    name: str

    @property
    def offset(self) -> float:
        """The start in seconds."""
        return self.start / self.info.sampling_rate

    @property
    def duration(self) -> float:
        """The length in seconds."""
        return self.num_samples / self.info.sampling_rate

    @property
    def has_all_samples(self) -> bool:
        """Whether the segment has all samples of its source."""
        return (self.start, self.num_samples) == (0, self.info.num_samples)

    @property
    def has_several_channels(self) -> bool:
        """Whether the segment has more than one channel."""
        return self.channel is None and self.info.num_channels > 1


def whole(source: AudioSource, info: AudioInfo, name: str = "") -> Segment:
    """Return the segment that has all samples and channels of a source."""
    return Segment(source, info, 0, info.num_samples, None, name or name_of(source))


def locate(
    source: AudioSource,
    info: AudioInfo,
    offset: float,
    duration: float | None,
    channel: object,
    policy: Policy,
    name: str = "",
) -> Segment:
    """Return the segment that a writer takes from a source for a record.

    Args:
        source: the audio.
        info: the result of `probe` for it.
        offset: the start of the record in the source, in seconds.
        duration: the length of the record, in seconds; None: to the end of the source.
        channel: the value of the record's field `channel`, unchecked; ignored for mono audio.
        policy: the policy of the writer.
        name: for messages.

    Raises:
        RecordRejected: for the reasons of `segment_samples`, even if the policy takes the whole file; BAD_FIELD for a
            channel that does not exist.
    """
    name = name or name_of(source)
    start, num_samples = segment_samples(info, offset, duration)
    if policy.samples is Samples.FILE:
        start, num_samples = 0, info.num_samples
    elif policy.samples is Samples.NEARLY and not start and (duration or inf) > info.duration - SAME_SECONDS:
        num_samples = info.num_samples
    return Segment(source, info, start, num_samples, _channel(info, channel, policy, name), name)


def _channel(info: AudioInfo, named: object, policy: Policy, name: str) -> Channel | None:
    """Return the channel that a writer takes for a record whose field `channel` has the value `named`."""
    chosen = policy.chosen
    if info.num_channels == 1 or (policy.channels is Channels.ALL and chosen is None):
        return None
    if chosen == MIX:
        return chosen
    if policy.channels is Channels.FIRST:
        return 0
    if named is None and chosen is None:
        return {Channels.NAMED: None, Channels.MEAN: MIX}.get(policy.channels, 0)
    taken = chosen if named is None else named
    if type(taken) is not int or not 0 <= taken < info.num_channels:
        raise RecordRejected(
            RejectReason.BAD_FIELD,
            f"channel is {taken!r}; {name} has {number_of(info.num_channels, 'channel')}, counted from 0",
        )
    return taken


def decode(segment: Segment) -> "NDArray[Any]":
    """Return the samples of a segment as int16, int32 or float32, of shape (num_samples, channels).

    Raises:
        RecordRejected: UNREADABLE_AUDIO if the source cannot be decoded; MISSING_AUDIO if it is gone; CRASHED_DECODER
            if it has crashed earlier processes.
    """
    source, info, start, num_samples, channel, name = segment
    take_in_hand(name, start, num_samples, channel)
    return _chosen(read_segment(source, info, start, num_samples, name=name), channel)


def _chosen(samples: "NDArray[Any]", channel: Channel | None) -> "NDArray[Any]":
    if channel is None:
        return samples
    return mean_of_channels(samples) if channel == MIX else samples[:, channel : channel + 1]


BLOCK_SAMPLES = 1 << 18
"""Samples per channel of a block of `decoded_blocks`: 6 to 30 s of speech."""


def decoded_blocks(segment: Segment) -> "Iterator[NDArray[Any]]":
    """Yield the samples of `decode` in blocks of `BLOCK_SAMPLES`, the last of which may be shorter; see `read_blocks`.

    Raises:
        RecordRejected: as `decode`, but after the blocks before the fault, which must then not be used.
    """
    source, info, start, num_samples, channel, name = segment
    take_in_hand(name, start, num_samples, channel)
    for samples in read_blocks(source, info, start, num_samples, BLOCK_SAMPLES, name=name):
        yield _chosen(samples, channel)


def mono_blocks(segment: Segment) -> "Iterator[NDArray[np.float32]]":
    """Yield the mean of all channels in blocks (n,), as float32 with full scale 1; raises as `decoded_blocks`."""
    return map(mono, decoded_blocks(segment))


def decode_mono(segment: Segment) -> "NDArray[np.float32]":
    """Return the samples (n,) of a segment of one channel as float32, with full scale 1; raises as `decode`."""
    return mono(decode(segment))


FALLBACK_FORMAT = "flac"
"""The format of audio that must be encoded again and whose own format cannot be written: lossless and small."""


def encoded(segment: Segment, target: TargetFormat, policy: Policy, *, check: bool = False) -> EncodedAudio:
    """Return a segment as a file: the bytes of its source if possible, otherwise encoded again.

    With `check`, copied audio is checked by `check_decoded`, which decodes it; otherwise by `check_copy`.

    Raises:
        RecordRejected: for the reasons of `convert`, and UNREADABLE_AUDIO if the check finds damage.
    """
    source, info, _, _, channel, name = segment
    if (
        segment.has_all_samples
        and channel is None
        and target.is_met_by(info)
        and (policy.formats is None or info.format in policy.formats)
    ):
        take_in_hand(name)
        data = read_whole(source, name)
        (check_decoded if check else check_copy)(data, info, name)
        return EncodedAudio(data, info.format, info.sampling_rate, info.num_samples, is_copy=True)
    if target.format is None and policy.again is Again.LOSSLESS and info.format != "wav":
        target = TargetFormat(FALLBACK_FORMAT, target.sampling_rate)
    return convert(segment, target)


def convert(segment: Segment, target: TargetFormat, order: tuple[int, ...] | None = None) -> EncodedAudio:
    """Decode a segment and encode it in the format of `target`, or in the format of the source if `target` has none.

    A format that cannot be written is replaced by FLAC. Lossless sources keep their samples in a lossless format (FLAC:
    up to 24 bits).

    `order`: the numbers of the channels as they are stored; None: all in their own order.

    Raises:
        RecordRejected: for the reasons of `decode`; UNREADABLE_AUDIO if the format cannot have as many channels or
            samples as the segment.
    """
    info = segment.info
    format = target.format or info.format
    if format not in WRITABLE:
        format = FALLBACK_FORMAT
    rate = encodable_rate(format, target.sampling_rate or info.sampling_rate)
    if target.sampling_rate not in (None, rate):
        note(f"{format} has no rate of {target.sampling_rate} Hz: the audio is stored at {rate} Hz")
    samples = decode(segment) if order is None else decode(segment)[:, order]
    if rate != info.sampling_rate:
        samples = resample(samples, info.sampling_rate, rate)
    return EncodedAudio(encode(samples, rate, format, lossless_subtype(info, format)), format, rate, len(samples))
