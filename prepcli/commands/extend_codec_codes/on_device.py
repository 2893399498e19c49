"""A codec on a device, and what the runs of `extend-codec-codes` share: their settings, checks and statistics."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prepcli.commands.extend_codec_codes.content import check_audio
from prepcli.commands.extend_codec_codes.encoding import BATCHES, COMPARED, DIFFERENT, ENCODED, IN_CODEC, USED
from prepcli.commands.extend_codec_codes.file_segments import UsedSegment, UsedSegmentDecoder
from prepcli.commands.extend_codec_codes.settings import CodecSettings
from prepcli.commands.extend_codec_codes.unusual_segments import notes_of
from prepcli.engine.publishing.publish import Marker, totals
from prepcli.engine.run.function import Output
from prepcli.engine.state.plan import AUDIO_BASE_DIRS, Contents, Plan, Unit, UnitT
from prepcli.engine.state.workspace import Workspace
from prepcli.formats.names import absolute_folder
from prepcli.formats.plain_codes import FRAME_SHIFT
from prepcli.jobs.model_job import WAITED, WALL, Begin, OnDevice
from prepcli.jobs.prefetch import DecodingPool
from prepcli.jobs.records import base_directories
from prepcli.jobs.source import RecordSource
from prepcli.models.codecs import identity, load_codec
from prepcli.models.protocols import Codec
from prepcli.storage.paths import AnyPath

SHARED_MEMORY_RATE = 48000
"""Worker processes decode audio for a GPU without resampling. The shared memory for their batches is large enough for
audio of up to this sampling rate (Hz)."""
TELEMETRY = (
    "hours_encoded",
    "real_time_factor",
    "mean_batch_seconds",
    "saved_by_encoding_once",
    "time_in_codec",
    "waited_for_audio",
)
"""The facts of a report that are figures about the run."""


class CodecOnDevice(OnDevice[UnitT, Contents, Codec]):
    """A codec on a device.

    Attributes:
        codec: its settings.
    """

    def __init__(
        self,
        device: str,
        codec: CodecSettings,
        start: "Callable[[CodecOnDevice[UnitT, Contents], Contents, UnitT, DecodingPool[UsedSegment]], Begin]",
        check: Callable[[Codec], object] = lambda _: None,
    ) -> None:
        """Keep the settings.

        Args:
            device: "cpu" or "cuda:N".
            codec: how audio becomes codes.
            start: lets workers find the segments of a unit (`OnDevice.read_ahead`).
            check: raises `UsageError` if the loaded codec cannot be used.
        """
        super().__init__(device)
        self.codec, self._start, self._check = codec, start, check

    def load(self, plan: Plan[UnitT, Contents]) -> Codec:
        """Load the codec."""
        codec = load_codec(self.codec.codec_model, self.codec.num_codebooks)
        self._check(codec)
        return codec

    @property
    def is_on_gpu(self) -> bool:
        """Whether the codec runs on a GPU. Then the GPU also resamples, and its kernels limit the size of a batch."""
        return self.device.startswith("cuda")

    @property
    def mixes_lengths(self) -> bool:
        """Whether a batch may hold segments of several lengths.

        True on a GPU if the codec has a true attribute `mixes_lengths`: the codes of a row then do not depend on the
        lengths of the other rows.
        """
        return self.is_on_gpu and bool(getattr(self.model, "mixes_lengths", False))

    def decoder(self, contents: Contents) -> UsedSegmentDecoder:
        """Return the decoder for worker processes; it resamples to the codec's rate, unless the codec is on a GPU."""
        return UsedSegmentDecoder(None if self.is_on_gpu else self.model.sampling_rate)

    @property
    def max_batch_samples(self) -> int:
        """The number of samples in `--batch-duration` seconds, at the highest sampling rate that a batch may have."""
        rate = self.model.sampling_rate
        return int(self.codec.batch_duration * (max(rate, SHARED_MEMORY_RATE) if self.is_on_gpu else rate))

    def read_ahead(self, contents: Contents, unit: UnitT, workers: DecodingPool[UsedSegment]) -> Begin:
        """Let workers find the unit's segments; returns a function that waits for the workers and begins the unit."""
        return self._start(self, contents, unit, workers)


def codec_settings(codec: CodecSettings, shaping: Mapping[str, Any]) -> dict[str, Any]:
    """The options that shape the output; the value of `--codec-model` is the identity of the codec, not its path."""
    settings = {**shaping, "--codec-model": identity(codec.codec_model), "--codec-name": codec.codec_name}
    if codec.peak is not None:
        settings["--peak"] = codec.peak
    if codec.num_codebooks is None:  # so that a run of a version without this option can be continued
        settings.pop("--num-codebooks", None)
    return settings


def settings_of_records(
    codec: CodecSettings, shaping: Mapping[str, Any], source: RecordSource, out: AnyPath
) -> dict[str, Any]:
    """The settings of the codec, the base folders of audio, and the output folder.

    The output folder is a setting, because the output may hold absolute paths of codes.
    """
    bases = base_directories(source.manifests, source.audio_base_dir)
    folders = {AUDIO_BASE_DIRS: list(dict.fromkeys(bases)), "folder of codes": absolute_folder(str(out))}
    return codec_settings(codec, shaping) | folders


def unchanged_files(output: Output) -> Callable[[Sequence[Unit], Workspace], None]:
    """The check that audio files of finished units are unchanged; it raises `UsageError`."""
    return lambda done, workspace: check_audio(workspace, done, Path(), output.engine.num_workers)


def statistics(markers: Sequence[Marker]) -> dict[str, Any]:
    """Facts for the report, from the units' counts: hours encoded, speed, and notes on unusual audio.

    With a faster precision than fp32, they include the share of compared codes that differ from those of fp32.
    """
    counts = totals(markers)
    wall = max(counts[WALL], 1e-9)
    details: dict[str, Any] = {
        "hours_encoded": round(counts[ENCODED] / 3600, 4),
        "real_time_factor": round(counts[ENCODED] / wall, 1),
        "mean_batch_seconds": round(counts[ENCODED] / max(counts[BATCHES], 1), 1),
        "saved_by_encoding_once": round(1 - counts[ENCODED] / max(counts[USED], 1e-9), 4),
        "time_in_codec": round(counts[IN_CODEC] / wall, 3),
        "waited_for_audio": round(counts[WAITED] / wall, 3),
    }
    if counts[COMPARED]:
        details["codes_unlike_fp32"] = round(counts[DIFFERENT] / counts[COMPARED], 6)
        details["codes_compared"] = int(counts[COMPARED])
    return details | notes_of(marker.extra for marker in markers)


def frame_shift_of_units(markers: Sequence[Marker]) -> dict[str, float]:
    """The seconds per frame of the codec, under the key `FRAME_SHIFT`; empty if no marker has them.

    They are read from the markers, because a rank loads no codec if other ranks have encoded everything.
    """
    shifts = [marker.extra[FRAME_SHIFT] for marker in markers if FRAME_SHIFT in marker.extra]
    return {FRAME_SHIFT: shifts[0]} if shifts else {}
