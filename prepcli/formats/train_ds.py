"""Writes a section for a training config with the keys that NeMo's Lhotse loader needs to read a data set."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.section import SECTION_FILE, section_path
from prepcli.formats.shar import is_for_magpie
from prepcli.storage.addresses import is_address
from prepcli.storage.paths import AnyPath, absolute

_HEAD = (
    "# Made by prepcli {command}: paste this section into the config of a NeMo model (model.train_ds).\n"
    "# Add what depends on the model and the GPU: sample_rate, and batch_duration (seconds) or batch_size.\n"
)


def write_train_ds(
    writer: UnitWriter,
    command: str,
    keys: Mapping[str, Any],
    lhotse: str = "",
    others: Sequence[tuple[str, Mapping[str, Any]]] = (),
    use: str = "",
) -> str:
    """Write a section `train_ds` for a training config, with `keys`, to a file in OUT.prepcli (`update_section`).

    No program reads the file, so users may edit it.

    Args:
        writer: writes the files of the final merge.
        command: name of the command.
        keys: keys of the section in addition to `use_lhotse` and `shuffle`.
        lhotse: Python code that opens the same data with lhotse; the file gets it as a comment.
        use: what the set is for; the file gets it as a comment.
        others: sections for other loaders, each after a line that explains it; the file gets them as comments.

    Returns:
        The path of the file.
    """
    import yaml

    text = _HEAD.format(command=command) + (f"# The set is {use}.\n" if use else "")
    text += f"# With lhotse alone: {lhotse}\n" if lhotse else ""

    def section(of_loader: Mapping[str, Any], flow: bool | None) -> str:
        document = {"train_ds": dict(of_loader)}
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1 << 20, default_flow_style=flow)

    text += section({"use_lhotse": True, "shuffle": True, **keys}, flow=None)
    for about, other in others:
        text += f"\n# {about}\n{textwrap.indent(section(other, flow=False), '# ')}"
    writer.open_part(SECTION_FILE).write(text.encode("utf-8", "replace"))
    return str(section_path(writer.workspace))


def write_shar_train_ds(writer: UnitWriter, command: str, fields: Mapping[str, AnyPath], shards: str) -> str:
    """Write the section `train_ds` for a Shar set.

    Args:
        writer: writes the files of the final merge.
        command: name of the command.
        fields: the path of each field's files, with `shards` in place of the number of a shard.
        shards: the text that stands for the numbers of all shards, as `shard_range` returns it, but not `*`.

    Returns:
        The path of the file.
    """
    paths = {name: absolute(path) for name, path in fields.items()}
    parts = {name: path.rpartition("/") for name, path in paths.items()}
    patterns = {name: f"{folder}/{file.replace(shards, '*')}" for name, (folder, _, file) in parts.items()}
    globs = (f"{name!r}: {_files(pattern, shards)}" for name, pattern in patterns.items())
    lhotse = f"CutSet.from_shar(fields={{{', '.join(globs)}}})"
    who = "Magpie-TTS, and not for ASR" if is_for_magpie(fields) else "ASR and everything that reads cut.recording"
    return write_train_ds(writer, command, {"shar_path": paths}, lhotse, use=f"for {who}")


def _files(pattern: str, shards: str) -> str:
    """A Python expression for the sorted paths of a field's shards: a `glob` for local files, a list for addresses.

    Args:
        pattern: the paths, with `*` for the number of the shard.
        shards: the range of the numbers, as `shard_range` returns it.
    """
    if not is_address(pattern):
        return f"sorted(glob({pattern!r}))"
    numbers = re.findall(r"\d+", shards)
    name = pattern.replace("*", f"{{number:0{len(numbers[0])}d}}")
    return f"[f{name!r} for number in range({int(numbers[0])}, {int(numbers[-1]) + 1})]"
