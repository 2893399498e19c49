"""extend-text-context: adds a text context to each cut of a Lhotse Shar set."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import Unpack

from prepcli.engine.run.options import JobArguments
from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText, folder_of, several
from prepcli.interface.printing import number_of
from prepcli.interface.shared_options import WorkDir

if TYPE_CHECKING:
    from prepcli.commands.extend_text_context.contexts import CutsShard
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.plan import Plan
    from prepcli.engine.state.workspace import Workspace


@command("extend-text-context")
def extend_text_context(
    shar_dir: Annotated[
        PathText,
        Option(
            "Lhotse Shar set, as manifest-to-shar writes it.",
            metavar="SHAR_DIR",
            is_argument=True,
            shapes_output=False,
            must_exist="folder",
            takes_address=True,
        ),
    ],
    *,
    suffix: Annotated[
        str | None,
        Option(
            "What follows the speaker in the text, after _: field:NAME, a field of the record such as emotion; "
            "regex:PATTERN, whose groups are found in the id of the supervision and joined by _; or a preset for a "
            "corpus (rivaLindyRodney, rivaEmmaMeganSeanTom, jhsdGtc20Amp20Keynote).",
            shown_default="nothing",
        ),
    ] = None,
    keep_field: Annotated[
        str | Sequence[str],
        Option(
            "A field of the record to keep, beside emotion; normalized_text, for example. May be repeated.",
            one_each=True,
        ),
    ] = (),
    work_dir: WorkDir = None,
    **more: Unpack[JobArguments],
) -> "Report":
    """Give the cuts of a Lhotse Shar set text contexts, which describe the voice in place of context audio.

    Writes SHAR_DIR/cuts_textContext/cuts.{000000}.jsonl.gz: the same cuts in the same order, whose custom fields are
    context_text, such as "Speaker and Emotion: | Language:en Dataset:x Speaker:y_HAPPY |", and emotion where there is
    one. Training reads them with the target audio or codes of the set, and without context audio. No audio is read.

    A cut without a speaker, or without what --suffix names, is a reject, and stays without context_text, so that the
    cuts are still aligned with the audio.

    Run the same command again to continue after an interruption.

    Example: prepcli extend-text-context shar/ --suffix field:emotion

    Returns:
        The report of the run; its `outputs` are two paths for a training config: `cuts` and the field with the audio.

    Raises:
        UsageError: invalid options, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> shar = prepcli.manifest_to_shar("manifest_with_context.json", "shar", shard_size=16)
        >>> report = prepcli.extend_text_context("shar", suffix="field:lang")
        >>> report.outputs["cuts"]
        '/.../shar/cuts_textContext/cuts._OP_000000..000002_CL_.jsonl.gz'
    """
    from prepcli.commands.extend_text_context.contexts import (
        FIELD_COUNT,
        LOST_TEXTS,
        CutsShard,
        parse_suffix,
        write_shard,
    )
    from prepcli.engine.publishing.publish import totals
    from prepcli.engine.run.function import Output, run
    from prepcli.engine.run.unfinished import refuse_unfinished
    from prepcli.engine.state.plan import InputFile, Plan
    from prepcli.errors import option
    from prepcli.formats.indexes import indexes_of
    from prepcli.formats.shar import AUDIO_NAME, RECORDING, TARGET, TEXT_CONTEXT_CUTS, shard_range, shard_text
    from prepcli.formats.shar_set import SharSet
    from prepcli.manifest.shar_cuts import CutsFile, cuts_digest, measure_cuts
    from prepcli.storage.input_files import state_of
    from prepcli.storage.paths import NUMBER

    cuts_name = f"{TEXT_CONTEXT_CUTS}/cuts.{NUMBER}.jsonl"
    # The workspace is inside that of the run that made the set, whose own state stays unchanged.
    output = Output(shar_dir, cuts_name, f"{cuts_name}.gz", inside=TEXT_CONTEXT_CUTS)
    added, kept = parse_suffix(suffix), several(keep_field)

    def plan(workspace: "Workspace") -> "Plan[CutsShard, None]":
        refuse_unfinished(output.path, folder_of(work_dir))
        files = {number: CutsFile(path, state_of(path)) for number, path in SharSet(output.path).cuts().items()}
        sizes = measure_cuts(list(files.values()), output.engine.num_workers)
        return Plan(
            units=[
                CutsShard(f"shard_{shard_text(number)}", size.seconds, size.num_cuts, number, file)
                for (number, file), size in zip(files.items(), sizes, strict=True)
            ],
            records_in=sum(size.num_cuts for size in sizes),
            contents=None,
            inputs=[
                InputFile(str(file.path), size.sha256, file.state, cuts_digest)
                for file, size in zip(files.values(), sizes, strict=True)
            ],
        )

    def write(_: None, unit: "CutsShard", writer: "UnitWriter") -> None:
        write_shard(output.path, unit, writer, added, kept)

    def finish(made: "Plan[CutsShard, None]", markers: "Sequence[Marker]", writer: "UnitWriter") -> dict[str, Any]:
        """The paths of cuts and target audio, to paste into a training config, and a remark on texts left out."""
        shards = shard_range([unit.number for unit in made.units])
        ending = ".jsonl.gz" if made.units[0].file.path.suffix == ".gz" else ".jsonl"
        details: dict[str, Any] = {"cuts": output.path / f"{TEXT_CONTEXT_CUTS}/cuts.{shards}{ending}"}
        field = next(name for name in (TARGET, RECORDING) if name == RECORDING or name in SharSet(output.path).audio)
        details[field] = output.path / AUDIO_NAME.format(field, shards)
        if field == RECORDING:
            remedy = f"prepcli manifest-to-shar {option('--audio-field', TARGET)}"
            details["audio"] = (
                f"Magpie-TTS does not read the field {RECORDING}: give it codes, or make the set by {remedy}"
            )
        counts = totals(markers)
        if absent := [name for name in kept if not counts[FIELD_COUNT.format(name)]]:
            details["absent"] = f"no cut has the field {', '.join(absent)}, which {option('--keep-field')} names"
        if lost := counts[LOST_TEXTS]:
            details["texts"] = (
                f"{number_of(lost, 'cut')} had a normalized_text, which MagpieTTS reads in place of the text: "
                f"{option('--keep-field', 'normalized_text')} keeps it"
            )
        return details

    return run(output, plan, write, finish, reads_audio_files=False, made_of=indexes_of)
