"""Checks that a Shar set is complete, and that audio is unchanged since codes were made from it."""

from collections.abc import Sequence
from functools import partial

import msgspec

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.run.unfinished import published_units, refuse_unfinished_run
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.stored_units import find_plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError, option
from prepcli.formats.audio_states import AUDIO_RECORD, States, audio_records, compare_audio
from prepcli.interface.printing import number_of, printable_command
from prepcli.processes.pools import map_in_order
from prepcli.storage.paths import AnyPath


def record_audio(writer: UnitWriter, states: States) -> None:
    """Write the states of a unit's audio files to a part of the unit, where `check_audio` reads them."""
    writer.open_part(AUDIO_RECORD.format(writer.unit.id)).write(msgspec.json.encode(states))


def check_audio(workspace: Workspace, done: Sequence[Unit], folder: AnyPath, num_workers: int) -> None:
    """Check that the audio of the finished units `done` is unchanged.

    The recorded paths of a Shar set's tars are relative to `folder`, the folder of the set. Paths of audio files are
    absolute.

    Raises:
        UsageError: a tar or an audio file holds other audio than before.
    """
    records = audio_records(workspace, done)
    for state in map_in_order(partial(compare_audio, folder=str(folder), is_noted=True), records, num_workers):
        if state.changed:
            raise UsageError(
                f"{state.changed[0]} holds other audio than the codes in {workspace.out} were made of. Choose another "
                f"directory ({option('--output-dir')}) or name ({option('--codec-name')}), or give "
                f"{option('--overwrite')} to encode everything again"
            )


def check_complete(workspace: Workspace, partial: bool) -> str | None:
    """Check that a Shar set is complete.

    Args:
        workspace: the workspace of the run that made the set.
        partial: whether an incomplete set is accepted.

    Returns:
        None if the set is complete, or if the workspace has no plan to compare it with. Otherwise, the part that is
        finished, as a text such as `3 of 5 units of the Shar`.

    Raises:
        UsageError: the set is incomplete, and `partial` is false.
    """
    plan, folder = find_plan(workspace), workspace.out
    if plan is None:
        return None
    if not workspace.is_committed:  # none of its shards is there yet
        refuse_unfinished_run(workspace)
    units = published_units(workspace, plan)
    if units.num_complete == units.num_units:
        return None
    if not partial:
        continued = printable_command(plan.run_again(folder))
        raise UsageError(
            f"{folder} is not complete: {units.num_complete} of {number_of(units.num_units, 'unit')} are there. "
            f"Continue it first: {continued}. Or give {option('--partial')} to encode what is there; once the rest is "
            "there, everything must be encoded again"
        )
    return f"{units.num_complete} of {number_of(units.num_units, 'unit')} of the Shar"
