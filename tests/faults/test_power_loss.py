"""The power fails at any moment: what starts again completes the output or refuses clearly, and takes no short file.

After exit code 0 the whole output is on the disk, even where nothing is but what was flushed.
"""

import random
from collections.abc import Callable, Iterator

import pytest

from tests.faults.cases import CASES
from tests.faults.power import Mode, disk_after, write_disk
from tests.faults.runs import OF_USERS, Runs, prepared
from tests.faults.test_every_call import EVERYTHING
from tests.support.seeds import some_of

PER_MODE = 1
"""How many moments of a run are tried in each mode, next to its end."""


def losses(runs: Runs, per_mode: int) -> Iterator[str]:
    """Lose the power at some moments, or with `EVERYTHING` at all that differ; what was not as it must be."""
    events = runs.events
    runs.start_afresh()
    for mode in Mode:
        moments = list(range(len(events)))
        if not EVERYTHING:
            moments = random.Random(f"{runs.name} {mode.value}").sample(moments, min(per_mode, len(moments)))
        last: object = None
        for count in sorted(moments):
            runs.start_afresh()
            state = disk_after(runs.place.run, events, count, mode)
            if state == last:
                continue
            last = state
            write_disk(runs.place.run, state)
            runs.num_losses += 1
            for fault in runs.after_again(may_refuse=True):
                yield f"{runs.name} {mode.value} after event {count} of {len(events)}: {fault}"
    runs.start_afresh()
    write_disk(runs.place.run, disk_after(runs.place.run, events, len(events), Mode.FLUSHED))
    runs.num_losses += 1
    if (found := runs.results()) != runs.undisturbed:
        lost = [name for name in runs.undisturbed if found.get(name) != runs.undisturbed[name]]
        yield f"{runs.name}: after exit code 0 {len(lost)} files are not on the disk: {lost[:8]}"


def lose(name: str, per_mode: int, record_property: Callable[[str, object], None]) -> None:
    with prepared(name, contents=True) as runs:
        assert OF_USERS in runs.undisturbed
        found = list(losses(runs, per_mode))
    record_property("power losses", runs.num_losses)
    assert found == []


@pytest.mark.slow
def test_a_loss(record_property: Callable[[str, object], None]) -> None:
    lose("tarred", 1, record_property)


def test_what_others_rely_on_is_on_the_disk_first() -> None:
    """The plan before a unit, all units before a change is recorded, and all files before it is recorded as done."""
    with prepared("tarred", contents=True) as runs:
        events, state = runs.events, runs.place.run / "out.prepcli"
        units = {str(path) for path in state.glob("*/units/*/unit.json")}
        assert len(units) == 4
        run = next(state.glob("*/plan.json")).parent

        def lasting_before(target: str, number: int = 0) -> set[str]:
            moments = [n for n, one in enumerate(events) if one.call == "rename" and one.other.startswith(target)]
            return set(disk_after(runs.place.run, events, moments[number], Mode.FLUSHED))

        runs.start_afresh()
        assert str(run / "plan.json") in lasting_before(f"{run}/units/")
        assert units <= lasting_before(str(state / "owner.json"))
        files = {str(runs.place.run / name) for name in runs.undisturbed}
        assert files <= lasting_before(str(state / "owner.json"), -1)


@pytest.mark.slow
@pytest.mark.parametrize("name", some_of(CASES))
def test_losses(name: str, record_property: Callable[[str, object], None]) -> None:
    lose(name, PER_MODE, record_property)


def lose_once(name: str, every: int) -> list[str]:
    """Lose the power in a command that a second call completes, or finds done and refuses."""
    found = []
    with prepared(name, contents=True) as runs:
        events = runs.events
        for mode in Mode:
            for count in range(len(events), -1, -every):
                runs.start_afresh()
                write_disk(runs.place.run, disk_after(runs.place.run, events, count, mode))
                again = runs.call()
                if again.code not in (0, 2) or runs.results() != runs.undisturbed:
                    found.append(f"{name} {mode.value} after event {count} of {len(events)}: {again.err}")
        runs.start_afresh()
        write_disk(runs.place.run, disk_after(runs.place.run, events, len(events), Mode.FLUSHED))
        if runs.results() != runs.undisturbed:
            found.append(f"{name}: after exit code 0 it is not on the disk")
    return found


@pytest.mark.slow
def test_losses_in_the_removal_of_an_addition() -> None:
    assert lose_once("undo", 1 if EVERYTHING else 20) == []
