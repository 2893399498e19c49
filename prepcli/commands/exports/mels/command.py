"""manifest-to-mels: makes mel-spectrograms from the audio of manifests.

On the CPU, worker processes compute the mels. On a GPU, the main process of each rank does, and its workers decode.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import Unpack

from prepcli.engine.run.options import Devices, RecordArguments
from prepcli.errors import UsageError, option
from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText
from prepcli.interface.shared_options import Channel, Manifests

if TYPE_CHECKING:
    from prepcli.commands.exports.mels.spectrogram import MelForm, MelSpectrogram
    from prepcli.commands.exports.records import ExportContents, ExportPlan
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.run.job import AnyJob
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.workspace import Workspace
    from prepcli.jobs.record_job import RecordUnit


@command("manifest-to-mels")
def manifest_to_mels(
    manifest: Manifests,
    out: Annotated[
        PathText, Option("Directory for mels and file lists.", metavar="OUT", is_argument=True, shapes_output=False)
    ],
    *,
    devices: Devices = "auto",
    lists_only: Annotated[
        bool,
        Option(
            "Write only the file lists, without the mels.",
            disables=("channel", "hop_length", "win_length", "mel_fmin", "mel_fmax", "n_mel_channels", "devices"),
        ),
    ] = False,
    text_field: Annotated[
        str | None,
        Option(
            "Field with the text of the lists.", shown_default="normalized_text of records that have it, otherwise text"
        ),
    ] = None,
    channel: Channel = None,
    sampling_rate: Annotated[int, Option("Sampling rate of the mels (Hz); other audio is resampled.")] = 22050,
    filter_length: Annotated[int, Option("Length of the Fourier transform in samples.", minimum=2)] = 1024,
    hop_length: Annotated[int, Option("Samples from one frame to the next.", minimum=1)] = 256,
    win_length: Annotated[int, Option("Length of the window in samples.", minimum=1)] = 1024,
    mel_fmin: Annotated[float, Option("Lowest frequency (Hz).", minimum=0)] = 0.0,
    mel_fmax: Annotated[float, Option("Highest frequency (Hz).", minimum=0)] = 8000.0,
    n_mel_channels: Annotated[int, Option("Number of mel bands.", minimum=1)] = 80,
    **more: Unpack[RecordArguments],
) -> "Report":
    """Turn NeMo manifests into mel-spectrograms and file lists for Tacotron 2 and WaveGlow.

    Writes OUT/mels/ID.pt, a float32 tensor (bands, frames) each, and for each manifest
    OUT/filelists/STEM_mel_text_filelist.txt and OUT/filelists/STEM_audio_text_filelist.txt. OUT is the dataset path for
    training; paths of audio are absolute. The text is normalized_text, or text if a record does not have it. A text
    with a vertical bar or a line break is a reject, and so is a clip that is shorter than half of --filter-length.
    Needs PyTorch (the extra models), except for --lists-only.

    Run the same command again to continue after an interruption.

    Example: prepcli manifest-to-mels train.json,val.json,test.json mels/

    Returns:
        The report of the run; `outputs` has the file lists of each manifest.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or PyTorch is not installed.

    Examples:
        >>> import prepcli
        >>> report = prepcli.manifest_to_mels("manifest.json", "mels", devices="cpu")
        >>> report.records_out
        48
        >>> report.outputs["manifest_mel_text_filelist"]
        '/.../mels/filelists/manifest_mel_text_filelist.txt'
    """
    from prepcli.audio.limits import check_target_rate
    from prepcli.audio.segments import MELS, with_channel
    from prepcli.commands.exports.mels.clips import MANY_FILES, RECORDS_PER_UNIT, ClipRules, write_clips
    from prepcli.commands.exports.mels.file_lists import join_lists, list_patterns, stems_of
    from prepcli.commands.exports.mels.on_device import MelsOnDevice
    from prepcli.commands.exports.mels.spectrogram import MelForm, MelSpectrogram
    from prepcli.commands.exports.records import plan_export
    from prepcli.engine.run.function import FunctionJob, Output, run
    from prepcli.jobs.inputs.named import refuse_containers
    from prepcli.jobs.model_job import ModelJob
    from prepcli.jobs.source import RecordSource
    from prepcli.models.ranks import run_on_devices

    output = Output(out)
    source = RecordSource(manifest, output)
    form = MelForm(sampling_rate, filter_length, hop_length, win_length, mel_fmin, mel_fmax, n_mel_channels)
    check_target_rate(sampling_rate, "--sampling-rate")
    rules = ClipRules(form, with_channel(MELS, channel), text_field)
    _check(form)
    stems = stems_of(source.manifests)
    output.patterns = list_patterns(stems)

    @cache
    def spectrogram() -> "MelSpectrogram":
        return MelSpectrogram(form)

    def plan(workspace: "Workspace") -> "ExportPlan":
        made = plan_export(source, workspace, RECORDS_PER_UNIT)
        count = len(made.contents.records)
        if count > MANY_FILES and not lists_only:
            made.notes.append(f"{count:,} files in one folder: make sure that the file system has room for them")
        return made

    def write(contents: "ExportContents", unit: "RecordUnit", writer: "UnitWriter") -> None:
        write_clips(contents, unit, writer, rules, None if lists_only else spectrogram())

    def finish(_: "ExportPlan", markers: "Sequence[Marker]", writer: "UnitWriter") -> dict[str, Any]:
        return join_lists(stems, markers, writer, sampling_rate)

    def job(device: str) -> "AnyJob":
        if device == "cpu":
            return FunctionJob(output, plan, write, finish, source.settings, prepare=spectrogram)
        return ModelJob(MelsOnDevice(device, rules, spectrogram), output, plan, finish, source.settings)

    if lists_only:
        refuse_containers(source.manifests, "--lists-only")
        return run(output, plan, write, finish, settings=source.settings)
    return run_on_devices(job, devices, output.workspace, output.engine)


def _check(form: "MelForm") -> None:
    if form.win_length > form.filter_length:
        raise UsageError(
            f"{option('--win-length', form.win_length)} must not exceed {option('--filter-length')} "
            f"{form.filter_length}"
        )
    if not form.mel_fmin < form.mel_fmax <= form.sampling_rate / 2:
        raise UsageError(
            f"{option('--mel-fmin', f'{form.mel_fmin:g}')} must be below "
            f"{option('--mel-fmax', f'{form.mel_fmax:g}')}, which must not exceed half of "
            f"{option('--sampling-rate', form.sampling_rate)}"
        )
