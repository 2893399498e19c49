"""texts-to-shards: divides texts, or pairs of texts, into shards for NeMo's types txt and txt_pair."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import Unpack

from prepcli.commands.exports.options import ShuffledJobArguments
from prepcli.errors import UsageError, option
from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, PathText
from prepcli.interface.printing import number_of
from prepcli.interface.shared_options import WorkDir

if TYPE_CHECKING:
    from prepcli.commands.exports.texts.lines import Lines
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.plan import Plan
    from prepcli.engine.state.workspace import Workspace
    from prepcli.jobs.record_job import RecordUnit

_SHARD_SIZE = 100_000


@command("texts-to-shards")
def texts_to_shards(
    texts: Annotated[
        Paths,
        Option(
            "Texts, one per line: a path, several separated by commas, or a brace pattern.",
            metavar="TEXTS",
            several_paths=True,
            is_argument=True,
            shapes_output=False,
            takes_address=True,
        ),
    ],
    out: Annotated[
        PathText,
        Option("Directory for the shards.", metavar="OUT", is_argument=True, shapes_output=False, takes_address=True),
    ],
    *,
    target: Annotated[
        Paths | None,
        Option(
            "Texts that belong to TEXTS line by line, such as their translations: as many files, for txt_pair.",
            metavar="TEXTS",
            several_paths=True,
            takes_address=True,
        ),
    ] = None,
    num_shards: Annotated[int | None, Option("Number of shards.", minimum=1)] = None,
    shard_size: Annotated[
        int | None, Option("Maximum number of lines per shard.", minimum=1, shown_default=f"{_SHARD_SIZE}")
    ] = None,
    work_dir: WorkDir = None,
    **more: Unpack[ShuffledJobArguments],
) -> "Report":
    """Divide texts, or pairs of texts, into shards for training on texts beside audio.

    Writes OUT/texts_{i}.txt for NeMo's type txt; with --target, OUT/source_{i}.txt and OUT/target_{i}.txt for txt_pair.
    Lines stay byte for byte. Lines that NeMo would read as something else are rejects, in pairs both: empty ones, those
    that are not UTF-8, and those with a carriage return, at which Python divides a line.

    Run the same command again to continue after an interruption.

    Example: prepcli texts-to-shards news.en texts/ --target news.de --num-shards 64 --shuffle

    Returns:
        The report of the run; `outputs` has the paths for a training config, `details["train_ds"]` the section.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or files of pairs with different
            numbers of lines.

    Examples:
        >>> import prepcli
        >>> report = prepcli.texts_to_shards("texts.txt", "shards", num_shards=2)  # doctest: +SKIP
    """
    from prepcli.commands.exports.records import seed_of
    from prepcli.commands.exports.texts.lines import Lines, names_of, write_shard
    from prepcli.engine.run.function import Output, run
    from prepcli.engine.state.plan import Plan
    from prepcli.formats.names import absolute_folder, brace_text, check_loadable
    from prepcli.formats.train_ds import write_train_ds
    from prepcli.jobs.record_job import RecordUnit, even_bounds, units_of
    from prepcli.manifest.sources import expand_paths
    from prepcli.planning.split import by_count

    if num_shards is not None and shard_size is not None:
        raise UsageError(f"{option('--num-shards')} and {option('--shard-size')} contradict each other: give one")
    sides = [expand_paths(str(side), what="file of texts") for side in (texts, target) if side is not None]
    if len({len(paths) for paths in sides}) > 1:
        raise UsageError(
            f"{number_of(len(sides[0]), 'file')} of texts and {len(sides[1])} of {option('--target')}: give as many"
        )
    names = names_of(len(sides))
    output = Output(out, *(name.format("*[0-9]") for name in names))
    check_loadable(output.path)

    def plan(workspace: "Workspace") -> "Plan[RecordUnit, Lines]":
        lines = Lines.read(sides, workspace, seed_of(more))
        if num_shards is not None and num_shards > lines.count:
            raise UsageError(
                f"{number_of(lines.count, 'line')} cannot fill {num_shards} shards; lower {option('--num-shards')}"
            )
        size = shard_size or _SHARD_SIZE
        bounds = by_count(lines.count, num_shards) if num_shards else even_bounds(lines.count, size)
        costs = (bounds[1:] - bounds[:-1]).astype(float)
        units = units_of("shard", bounds.tolist(), costs.tolist(), make=RecordUnit)
        return Plan(units, lines.count, lines, lines.inputs, knows_seconds=False)

    def write(lines: "Lines", unit: "RecordUnit", writer: "UnitWriter") -> None:
        write_shard(lines, unit, writer, names)

    def finish(made: "Plan[RecordUnit, Lines]", _: "Sequence[Marker]", writer: "UnitWriter") -> dict[str, Any]:
        if not made.units:
            return {}
        last = len(made.units) - 1
        keys = ("paths",) if len(names) == 1 else ("source_paths", "target_paths")
        shards = "0" if not last else brace_text("0", str(last))
        paths = {key: writer.workspace.out / name.format(shards) for key, name in zip(keys, names, strict=True)}
        folder = absolute_folder(str(writer.workspace.out)).rstrip("/")
        loaded = {key: f"{folder}/{path.name}" for key, path in paths.items()}
        entry = {"type": "txt" if len(names) == 1 else "txt_pair", **loaded}
        return paths | {"train_ds": write_train_ds(writer, "texts-to-shards", {"input_cfg": [entry]})}

    return run(output, plan, write, finish, reads_audio_files=False)
