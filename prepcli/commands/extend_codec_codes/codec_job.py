"""Base classes of jobs with a codec: `CodecJob`, and `RecordCodesJob` for jobs over records."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from prepcli.commands.extend_codec_codes.content import check_audio
from prepcli.commands.extend_codec_codes.encoding import BATCHES, COMPARED, DIFFERENT, ENCODED, IN_CODEC, USED
from prepcli.commands.extend_codec_codes.file_segments import UsedSegmentDecoder
from prepcli.commands.extend_codec_codes.settings import CodecSettings
from prepcli.commands.extend_codec_codes.unusual_segments import notes_of
from prepcli.engine.publishing.publish import Marker, totals
from prepcli.engine.state.plan import AUDIO_BASE_DIRS, Contents, Plan, UnitT
from prepcli.engine.state.workspace import Workspace
from prepcli.formats.names import absolute_folder
from prepcli.jobs.model_job import WAITED, WALL, ModelJob
from prepcli.jobs.record_job import ContentsT, OverRecords, RecordUnit
from prepcli.jobs.records import base_directories
from prepcli.models.codecs import check_codec_model, identity, load_codec
from prepcli.models.protocols import Codec
from prepcli.storage.paths import AnyPath

SHARED_MEMORY_RATE = 48000
"""Worker processes decode audio for a GPU without resampling. The shared memory for their batches is large enough for
audio of up to this sampling rate (Hz)."""


class CodecJob(ModelJob[UnitT, Contents, Codec]):
    """A job that encodes audio with the codec of its settings."""

    command: ClassVar[str] = "extend-codec-codes"
    telemetry = (
        "hours_encoded",
        "real_time_factor",
        "mean_batch_seconds",
        "saved_by_encoding_once",
        "time_in_codec",
        "waited_for_audio",
    )

    def __init__(self, codec: CodecSettings, shaping: Mapping[str, Any], device: str, num_workers: int) -> None:
        """`shaping`: the options that shape the output, as settings of the plan."""
        super().__init__(device, num_workers)
        check_codec_model(codec.codec_model, codec.num_codebooks)
        self.codec, self._shaping = codec, shaping

    @property
    def name(self) -> str:
        """The codec name in `codes_<name>`."""
        return self.codec.codec_name

    def codec_settings(self) -> dict[str, Any]:
        """The options by name; the value of `--codec-model` is the identity of the codec, not its path."""
        settings = {**self._shaping, "--codec-model": identity(self.codec.codec_model), "--codec-name": self.name}
        if self.codec.peak is not None:
            settings["--peak"] = self.codec.peak
        if self.codec.num_codebooks is None:  # so that a run of a version without this option can be continued
            settings.pop("--num-codebooks", None)
        return settings

    def load_model(self) -> Codec:
        """Load the codec."""
        return load_codec(self.codec.codec_model, self.codec.num_codebooks)

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

    def statistics(self, markers: Sequence[Marker]) -> dict[str, Any]:
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


class RecordCodesJob(CodecJob[RecordUnit, ContentsT], OverRecords[RecordUnit, ContentsT]):
    """A job that encodes the audio of records. A unit is some consecutive records."""

    def __init__(
        self,
        manifests: Sequence[str],
        audio_base_dir: AnyPath | None,
        out: AnyPath,
        codec: CodecSettings,
        *,
        shaping: Mapping[str, Any] = MappingProxyType({}),
        device: str = "cpu",
        num_workers: int = 1,
    ) -> None:
        """Keep the settings; `out` is the output folder.

        `audio_base_dir` is the base folder of relative audio paths; None stands for the folder of each manifest.
        """
        super().__init__(codec, shaping, device, num_workers)
        self.manifests = manifests
        self._audio_base_dir = audio_base_dir
        self.folder = absolute_folder(str(out))

    @property
    def audio_base_dir(self) -> AnyPath | None:
        """The base folder of relative audio paths; None: the folder of each manifest."""
        return self._audio_base_dir

    def own_settings(self) -> dict[str, Any]:
        """The settings of the codec, the base folders of audio, and the output folder.

        The output folder is a setting, because the output may hold absolute paths of codes.
        """
        bases = base_directories(self.manifests, self._audio_base_dir)
        return self.codec_settings() | {AUDIO_BASE_DIRS: list(dict.fromkeys(bases)), "folder of codes": self.folder}

    def input_files(self, plan: Plan[RecordUnit, ContentsT]) -> list[str | AnyPath]:
        """The manifests, and the codec's file or name."""
        return [*self.manifests, self.codec.codec_model]

    def check_done(self, done: Sequence[RecordUnit], workspace: Workspace) -> None:
        """Raise `UsageError` if audio files of finished units have changed since their codes were made."""
        check_audio(workspace, done, Path(), self.num_workers)
