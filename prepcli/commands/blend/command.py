"""blend: mixes finished sets by weights in one input_cfg, or in one list for WeNet."""

import importlib.util
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from prepcli.errors import UsageError, cannot_write, option
from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, PathText, several, texts_of
from prepcli.interface.shared_options import Json, NumWorkers

if TYPE_CHECKING:
    from prepcli.commands.blend.report import BlendReport


@command("blend")
def blend(
    sets: Annotated[
        Paths,
        Option(
            "The data sets, each with a name; NAME=:WEIGHT gives a group a weight.",
            metavar="NAME=SET[:WEIGHT]...",
            is_argument=True,
            may_be_path=True,
        ),
    ],
    out: Annotated[PathText, Option("Config to write, or OUT.list for WeNet.", metavar="OUT.yaml", is_argument=True)],
    *,
    keep: Annotated[
        str | Sequence[str],
        Option(
            "Count only the hours and records for which this is true, as in filter; the sets stay whole.",
            metavar="EXPR",
            one_each=True,
            order=-1,
        ),
    ] = (),
    temperature: Annotated[
        float | Sequence[float],
        Option(
            "Exponent of the weights that are not given: 1: in proportion to hours; 0: all equal. For each level of "
            "groups, or one for all.",
            names=("--temperature",),
            shown_default="1",
            minimum=0,
            one_each=True,
        ),
    ] = (),
    by: Annotated[Literal["hours", "records"], Option("Weigh the sets by hours or by number of records.")] = "hours",
    lang: Annotated[
        str | Sequence[str],
        Option("Tag with the language, of all sets or of one set or group.", metavar="[NAME=]LANG", one_each=True),
    ] = (),
    tag: Annotated[
        str | Sequence[str],
        Option("Tag with any field, of all sets or of one set or group.", metavar="[NAME:]FIELD=VALUE", one_each=True),
    ] = (),
    check_by: Annotated[
        Literal["files", "nemo"],
        Option(
            "Check that files, shards and first records fit together; nemo: let NeMo read the result once, too.",
            names=("--check",),
        ),
    ] = "files",
    check: Annotated[
        bool,
        Option(
            "Do not check the sets.", names=("--no-check",), help_in_python="Check the sets.", disables=("check_by",)
        ),
    ] = True,
    dry_run: Annotated[bool, Option("Print the table and write nothing.")] = False,
    overwrite: Annotated[bool, Option("Replace OUT.yaml.")] = False,
    as_json: Json = False,
    num_workers: NumWorkers = None,
) -> "BlendReport":
    """Mix finished data sets in one input_cfg for NeMo's training configs, with weights and a table of shares.

    A SET is a tarred set, a Shar set, a manifest, lhotse cuts, or an input_cfg (.yaml). Its hours come from the report
    of the run that made it, else they are read from its manifest. NAME may be in groups: en/books. GROUP=:WEIGHT gives
    a group a weight, or a part of a set, such as en/entry0=:0.5. A WEIGHT is used as it is, and then each member of its
    group needs one; the share of a set is the product of the weights of its levels. Without weights, sets and groups
    weigh their hours to the power of the temperature, in each group. Weights that an input_cfg has stay as they are.

    To mix sets for WeNet, name the output OUT.list: it has the lines of their lists. Sets with larger weights are
    repeated, so that each set has its share of the hours.

    Example: prepcli blend en/books=books/ en/calls=calls/ it=it.json mix.yaml --temperature 0.5 --lang it=it

    Returns:
        The table of the data sets: hours, shares, and how often their records are seen.

    Raises:
        UsageError: a data set is not there or not finished, or options do not go together.

    Examples:
        >>> import prepcli
        >>> report = prepcli.blend(["a=manifest.json:0.7", "b=segments.json:0.3"], "mix.yaml")
        >>> [(part.name, part.records, part.share) for part in report.sets]
        [('a', 48, 0.7), ('b', 6, 0.3)]
    """
    from prepcli.commands.blend.checking import check_set
    from prepcli.commands.blend.nodes import entries_of, notes_on_repeats, set_weights
    from prepcli.commands.blend.reading import find, read_set, read_sets
    from prepcli.commands.blend.report import report_of
    from prepcli.commands.blend.wenet import count_lines, draws_of, epoch_note, mixed_list, read_wenet_set
    from prepcli.engine.state.work_folder import refuse_state
    from prepcli.manifest.seconds import notes_on_seconds
    from prepcli.processes.workers import available_processors

    specs, path, rules = texts_of(sets), Path(out), several(keep)
    if check_by == "nemo":
        _require_nemo()
    is_for_wenet = path.suffix == ".list"
    if not is_for_wenet and path.suffix not in (".yaml", ".yml"):
        raise UsageError(f"{path}: the config must be a file whose name ends in .yaml, or in .list for WeNet")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name the config to write")
    refuse_state(path)
    tags = _tags_of(several(lang), several(tag))
    if is_for_wenet and tags:
        raise UsageError(f"a list for WeNet has no tags: leave out {option('--lang')} and {option('--tag')}")
    if is_for_wenet and rules:
        raise UsageError(f"{option('--keep')} reads NeMo manifests, which a list for WeNet does not have")
    if is_for_wenet and check_by == "nemo":
        raise UsageError(f"NeMo does not read a list for WeNet: leave out {option('--check')}")
    write = partial(_write, path, dry_run=dry_run, overwrite=overwrite)
    workers = num_workers or available_processors()
    read = read_wenet_set if is_for_wenet else partial(read_set, keep=rules)
    root = read_sets(specs, lambda name, spec: read(name, spec, workers))
    depth = root.depth()
    temperatures = several(temperature) or (1.0,)
    if len(temperatures) not in (1, depth):
        raise UsageError(
            f"{option('--temperature')} is given {len(temperatures)} times for {depth} levels; give one, or {depth}"
        )
    notes = [*dict.fromkeys(set_weights(root, temperatures, by)), *notes_on_repeats(root)]
    for name, field, value in tags:
        node = find(root, name)
        for target in [node] if name else node.children:
            target.tags[field] = value
    notes += [
        f"{name}: {note}"
        for name, leaf, _ in root.leaves()
        for note in (*leaf.notes, *notes_on_seconds(leaf.seconds / leaf.records))
    ]
    inputs = [spec.partition("=")[2] for spec in specs]
    inputs += [spec.rpartition(":")[0] for spec in inputs]
    if is_for_wenet:
        counts = count_lines(root, by)
        report = report_of(path, root, draws_of(root, counts), [*notes, epoch_note(root, counts)])
        inputs += [leaf.entry["list"] for _, leaf, _ in root.leaves()]
        report.status = write(mixed_list(root, counts), inputs)
        return report
    if len({leaf.is_tarred for _, leaf, _ in root.leaves()}) > 1:
        notes.append(
            "plain manifests are mixed with tarred or Shar sets: NeMo needs force_iterable_dataset: true in the "
            "config, or turn them into tarred sets with manifest-to-tarred"
        )
    report = report_of(path, root, [share for _, _, share in root.leaves()], notes)
    if check:
        for name, leaf, _ in root.leaves():
            check_set(name, leaf)
        report.checked = True
    report.status = write(_yaml(report, entries_of(root)), inputs)
    if check_by == "nemo" and report.status != "dry_run":
        _read_with_nemo(path)
    return report


def _tags_of(langs: Sequence[str], tags: Sequence[str]) -> list[tuple[str, str, Any]]:
    """The tags of `--lang` and `--tag`: (name of the set or group, field, value); the name "" stands for all sets.

    Raises:
        UsageError: `--lang` is not LANG or NAME=LANG, or `--tag` is not FIELD=VALUE or NAME:FIELD=VALUE.
    """
    parsed: list[tuple[str, str, Any]] = []
    for text in langs:
        name, equals, lang = text.rpartition("=")
        if not lang or (equals and not name):
            raise UsageError(f"{option('--lang')} takes LANG or NAME=LANG, not {text!r}")
        parsed.append((name, "lang", lang))
    for text in tags:
        field, equals, value = text.partition("=")
        name, _, field = field.rpartition(":")
        if not equals or not field:
            raise UsageError(f"{option('--tag')} takes FIELD=VALUE or NAME:FIELD=VALUE, not {text!r}")
        parsed.append((name, field, value))
    return parsed


def _yaml(report: "BlendReport", entries: list[dict[str, Any]]) -> bytes:
    import yaml

    lines = [f"# {line.strip()}" for line in str(report).splitlines()[1:]]
    head = ["# Made by prepcli blend; use it as `input_cfg` of train_ds.", *lines]
    body = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=10**6)
    return ("\n".join(head) + "\n" + body).encode()


def _write(out: Path, content: bytes, inputs: Sequence[str], *, dry_run: bool, overwrite: bool) -> str:
    """Write the output; returns the status of the report.

    Nothing is written in a dry run, or if the file exists with this content.

    Raises:
        UsageError: the file exists with another content, and `--overwrite` is not given; or it cannot be written, or is
            a pipe.
    """
    from prepcli.engine.state.workspace import replaced_file
    from prepcli.formats.set_files import refuse_file_of_set
    from prepcli.storage.input_files import refuse_input_as_output

    if dry_run:
        return "dry_run"
    if out.exists() and not (out.is_file() or out.is_dir()):
        raise UsageError(f"{out} is a pipe or a device, not a file; name a file, such as mix.yaml")
    if out.exists() and out.read_bytes() == content:
        return "nothing_to_do"
    refuse_input_as_output("OUT", out, lambda: inputs)
    refuse_file_of_set("OUT", out)
    if out.exists() and not overwrite:
        raise UsageError(
            f"{out} exists with another content; give another name, or {option('--overwrite')} to replace it"
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(out) as file:
            file.write(content)
    except OSError as error:
        raise cannot_write(error, f"cannot write {out}: {error.strerror or error}") from error
    return "done"


def _require_nemo() -> None:
    """Raise `UsageError` if NeMo or lhotse is not installed."""
    if missing := [name for name in ("nemo", "lhotse") if not importlib.util.find_spec(name)]:
        raise UsageError(
            f"{option('--check', 'nemo')} needs {' and '.join(missing)}, which is not installed: "
            "pip install 'prepcli[nemo]'"
        )


def _read_with_nemo(out: Path) -> None:
    """Have NeMo read the config once; raises `UsageError` if it cannot."""
    from prepcli.interface.calls import tell
    from prepcli.models.nemo_input import open_input_cfg

    tell(f"blend: NeMo reads {out} once, to check it; its start takes long")
    open_input_cfg(out)
