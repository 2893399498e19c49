"""Check that the Shar set is complete, and that its audio is still what codes were made from."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from prepcli.codes.plan import InputShard
from prepcli.codes.shard_index import ShardIndex, index_shard
from prepcli.display.printing import printable_command
from prepcli.engine.crashes import map_in_workers
from prepcli.engine.plan import Unit
from prepcli.engine.publish import Marker
from prepcli.engine.store_output import OutputSizes
from prepcli.engine.stored_units import find_plan, read_units
from prepcli.engine.workspace import Workspace, read_document, write_json
from prepcli.errors import UsageError
from prepcli.formats.shar_audio import AUDIO_RECORD, States
from prepcli.storage.input_files import state_of


def record_audio(
    workspace: Workspace, unit: str, shards: Sequence[InputShard], indices: Sequence[ShardIndex], folder: Path
) -> None:
    """Store what a unit is made from; to be called before it is published."""
    states: States = {}
    for shard, index in zip(shards, indices, strict=True):
        states |= _by_path(shard, index.states, folder)
    _write(workspace, unit, states)


def check_audio(workspace: Workspace, done: Mapping[str, Sequence[InputShard]], folder: Path, num_workers: int) -> None:
    """Check that the shards of the finished units hold the audio that the units were made from.

    A tar of the same size, time and inode is the same. Any other is read: a copy, or a file with another date, may hold
    the same bytes, and is then noted so that it is not read again.

    Raises:
        UsageError: a tar holds different audio.
    """
    records = {unit: record for unit in done if (record := _read(workspace, unit)) is not None}
    doubtful = [
        (unit, shard)
        for unit, record in records.items()
        for shard in done[unit]
        if any(not _is_untouched(folder, path, record) for path in _paths(shard, folder).values())
    ]
    indices = map_in_workers(index_shard, [shard for _, shard in doubtful], workspace, num_workers)
    for (unit, shard), index in zip(doubtful, indices, strict=True):
        for path, state in _by_path(shard, index.states, folder).items():
            if path not in records[unit] or records[unit][path].digest != state.digest:
                raise UsageError(
                    f"{folder / path} holds other audio than the codes in {workspace.out} were made of. Choose another "
                    "directory (--output-dir) or name (--codec-name), or give --overwrite to encode everything again"
                )
            records[unit][path] = state
    with contextlib.suppress(OSError):  # then they are read again next time
        for unit in dict.fromkeys(unit for unit, _ in doubtful):
            _write(workspace, unit, records[unit])


def check_complete(workspace: Workspace, partial: bool) -> str | None:
    """The finished part of a Shar by the plan in its workspace; None if it is complete or has no known plan.

    Raises:
        UsageError: a part is missing, and `partial` does not say to take what is there.
    """
    plan, folder = find_plan(workspace), workspace.out
    units = [] if plan is None else read_units(workspace, plan)
    sizes = OutputSizes(folder)
    num_done = sum(_is_published(workspace, unit, plan.digest, sizes) for unit in units if plan is not None)
    if plan is None or num_done == len(units):
        return None
    if not partial:
        continued = printable_command(plan.run_again(folder))
        raise UsageError(
            f"{folder} is not complete: {num_done} of {len(units)} units are there. Continue it first: {continued}. "
            "Or give --partial to encode what is there; once the rest is there, everything must be encoded again"
        )
    return f"{num_done} of {len(units)} units of the Shar"


def _is_published(workspace: Workspace, unit: Unit, digest: str, sizes: OutputSizes) -> bool:
    """Whether the unit is done and its files exist; `check_audio` checks that they are unchanged."""
    marker = read_document(workspace.done / f"{unit.id}.json", Marker)
    if marker is None or marker.digest != digest:
        return False
    return all(map(sizes.has, marker.files))


def _paths(shard: InputShard, folder: Path) -> dict[str, str]:
    return {name: str(tar.relative_to(folder)) for name, tar in shard.tars.items()}


def _by_path(shard: InputShard, states: States, folder: Path) -> States:
    return {path: states[name] for name, path in _paths(shard, folder).items()}


def _is_untouched(folder: Path, path: str, record: States) -> bool:
    before = record.get(path)
    return before is not None and before.is_of(state_of(folder / path))


def _read(workspace: Workspace, unit: str) -> States | None:
    """None if it is missing: an earlier version of prepcli, without this file, has done the unit."""
    return read_document(workspace.root / AUDIO_RECORD.format(unit), States)


def _write(workspace: Workspace, unit: str, states: States) -> None:
    path = workspace.root / AUDIO_RECORD.format(unit)
    path.parent.mkdir(exist_ok=True)
    write_json(path, states)
