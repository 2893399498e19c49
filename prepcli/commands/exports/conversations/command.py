"""conversations-to-tarred: writes conversations with their audio to tars, for speech language models."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import Unpack

from prepcli.commands.exports.options import ShardArguments
from prepcli.errors import UsageError, option
from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, PathText, several
from prepcli.interface.shared_options import ForceCodec, TargetRate, WorkDir

if TYPE_CHECKING:
    from prepcli.commands.exports.records import AudioContents
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.plan import Plan
    from prepcli.engine.state.workspace import Workspace
    from prepcli.jobs.record_job import RecordUnit

_SHARD_SIZE = 1000


@command("conversations-to-tarred")
def conversations_to_tarred(
    conversations: Annotated[
        Paths,
        Option(
            "Conversations: JSON lines of NeMo, ShareGPT, ms-swift or Qwen, or a finished set in tars: a path, several "
            "separated by commas, or a brace pattern.",
            metavar="INPUT",
            several_paths=True,
            is_argument=True,
            shapes_output=False,
            takes_address=True,
        ),
    ],
    out: Annotated[
        PathText,
        Option("Directory for the set.", metavar="OUT", is_argument=True, shapes_output=False, takes_address=True),
    ],
    *,
    form: Annotated[
        Literal["nemo", "sharegpt-webdataset", "duplex", "moshi"],
        Option(
            "Tars with manifests for multimodal_conversation, or pairs of JSON and audio for share_gpt_webdataset. Of "
            "stereo recordings with a voice a channel, for full-duplex models: duplex, a Shar for NeMo's "
            "DuplexS2SDataset; moshi, stereo WAV with the times of words."
        ),
    ] = "nemo",
    agent_channel: Annotated[
        int | None,
        Option(
            "With the forms duplex and moshi: the channel of the voice that a model learns, 0 or 1. INPUT is then a "
            "manifest of segments with channel and text, as segment writes it.",
            minimum=0,
            maximum=1,
        ),
    ] = None,
    num_shards: Annotated[int | None, Option("Number of shards.", minimum=1)] = None,
    shard_size: Annotated[
        int | None, Option("Maximum number of conversations per shard.", minimum=1, shown_default=f"{_SHARD_SIZE}")
    ] = None,
    shard_hours: Annotated[float | None, Option("Hours of audio per shard.", above=0)] = None,
    placeholder: Annotated[
        str | Sequence[str],
        Option(
            "Text that stands for audio in a turn. May be repeated.",
            shown_default="<sound>, <speech> and <audio>",
            one_each=True,
        ),
    ] = (),
    force_codec: ForceCodec = None,
    target_sample_rate: TargetRate = None,
    work_dir: WorkDir = None,
    **more: Unpack[ShardArguments],
) -> "Report":
    """Write conversations with their audio to tars, as NeMo reads them for speech language models.

    Writes OUT/manifest_{i}.jsonl and OUT/audio_{i}.tar with their indexes (.idx): the audio of a turn is the next
    member of the tar, cut to the turn, under a name of its own; files that need no change are copied byte for byte. The
    form sharegpt-webdataset has OUT/shard-{i}.tar with a JSON and a file of audio for each conversation, and
    OUT/wids-meta.json. A conversation of which one turn cannot be used is a reject, which names the turn.

    Run the same command again to continue after an interruption.

    Example: prepcli conversations-to-tarred chats.jsonl chats/ --num-shards 64 --shuffle

    Returns:
        The report of the run; `outputs` has the paths for a training config, `details["train_ds"]` the section.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.conversations_to_tarred("conversations.jsonl", "chats", num_shards=2)  # doctest: +SKIP
    """
    from prepcli.audio.segments import CONVERSATION
    from prepcli.commands.exports.conversations import duplex
    from prepcli.commands.exports.conversations.shards import finished, plan_shards, write_shard
    from prepcli.commands.exports.records import conversion, seed_of
    from prepcli.engine.run.function import Output, run
    from prepcli.formats.conversations import MANIFEST_NAME, META_NAME, PAIRS_NAME, TAR_NAME
    from prepcli.formats.names import check_loadable
    from prepcli.jobs.inputs.conversations import conversations_in
    from prepcli.jobs.inputs.dialogues import dialogues_in
    from prepcli.jobs.source import RecordSource

    sizes = {"--num-shards": num_shards, "--shard-size": shard_size, "--shard-hours": shard_hours}
    given = [name for name, value in sizes.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(map(option, given))} contradict each other: give one of them")
    is_duplex = form in ("duplex", "moshi")
    if is_duplex != (agent_channel is not None):
        raise UsageError(
            f"{option('--agent-channel')} and the forms duplex and moshi need each other: give both, or leave both out"
        )
    patterns: dict[str, Sequence[str]] = {
        "nemo": [name.format("*[0-9]") for name in (MANIFEST_NAME, TAR_NAME)],
        "sharegpt-webdataset": [PAIRS_NAME.format("*[0-9]"), META_NAME],
        "duplex": duplex.SHAR_PATTERNS,
        "moshi": duplex.MOSHI_PATTERNS,
    }
    output = Output(out, *patterns[form])
    if form != "moshi":
        check_loadable(output.path)
    if agent_channel is None:
        others = conversations_in(several(placeholder), more["audio_base_dir"])
    else:
        others = dialogues_in(agent_channel, more["audio_base_dir"])
    source = RecordSource(conversations, output, others=others)
    audio = conversion(CONVERSATION, force_codec, target_sample_rate, more)

    def plan(workspace: "Workspace") -> "Plan[RecordUnit, AudioContents]":
        size, seed = shard_size or _SHARD_SIZE, seed_of(more)
        return plan_shards(source, workspace, num_shards, size, shard_hours, seed, has_ids=not is_duplex)

    def write(contents: "AudioContents", unit: "RecordUnit", writer: "UnitWriter") -> None:
        if agent_channel is None:
            write_shard(contents, unit, writer, audio, form)
        elif form == "moshi":
            duplex.write_moshi(contents, unit, writer, audio, agent_channel)
        else:
            duplex.write_shar(contents, unit, writer, audio, agent_channel)

    def finish(
        made: "Plan[RecordUnit, AudioContents]", markers: "Sequence[Marker]", writer: "UnitWriter"
    ) -> dict[str, Any]:
        return duplex.finished(made.units, writer, form) if is_duplex else finished(made.units, markers, writer, form)

    return run(output, plan, write, finish, settings=source.settings)
