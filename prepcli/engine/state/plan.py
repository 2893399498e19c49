"""The plan: the units of work, their costs, and their distribution over the ranks."""

import hashlib
import heapq
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from prepcli.errors import naming, option
from prepcli.storage.addresses import is_address
from prepcli.storage.input_files import FileState, state_of
from prepcli.storage.paths import AnyPath, absolute, exists

PLAN_FORMAT = 2
"""Version of the format of `plan.json` and of the plan's digest; runs with another version are not continued."""
UNITS_FOLDER = "units"
"""The folder in OUT.prepcli with the units of its plan (`prepcli.engine.state.stored_units`)."""
AUDIO_BASE_DIRS = "audio folders"
"""The name of the setting that holds the folders from which relative audio paths start."""
CONVERSATIONS = "conversations"
"""The name of the setting that is true if there are conversations among the inputs: their rejects are conversations."""
_CHUNK = 1 << 14


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest piece of work that is done, published and resumed as a whole.

    A job has a subclass with fields for the shard or the records of the unit. These fields are part neither of the
    plan's digest nor of `plan.json`. They are sent to worker processes, so they must be small.

    `id` names the unit in `done/` and in progress lines. `cost` is in seconds of audio, or in records if the plan does
    not know seconds (`Plan.knows_seconds`). `num_records` is the number of its records: records out + rejects.
    """

    id: str
    cost: float
    num_records: int


UnitT = TypeVar("UnitT", bound=Unit)
Contents = TypeVar("Contents")
"""The type of the data, besides the units, that a job needs to process the units of its plan."""


FINISH_UNIT = Unit("finish", 0.0, 0)
"""The unit for the final merge of the files of all units (`Job.finish`); the plan does not list this unit."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input whose content shapes the output: `sha256` goes into the plan's digest, the path does not.

    `state` is the state of the file before it was read; None for a file that the run itself has made. `digest_of`
    computes the `sha256` for a path again. It is called if the state has changed, to see if the content has changed.
    """

    path: str
    sha256: str
    state: FileState | None = None
    digest_of: Callable[[str], str] | None = None

    def has_same_content(self) -> bool:
        """Whether the file still has the content with the digest `sha256`; reads it. False if `digest_of` is None."""
        return self.digest_of is not None and self.digest_of(self.path) == self.sha256


def input_file(path: str) -> InputFile:
    """The `InputFile` for a small file, which is read whole: its `sha256` is the digest of its bytes."""
    state = state_of(path)
    return InputFile(path, _digest_of(path), state, _digest_of)


def _digest_of(path: str) -> str:
    with naming(path):
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@dataclass
class Plan(Generic[UnitT, Contents]):
    """All units of a job. The plan depends on the inputs and the settings alone, never on ranks or workers.

    `records_in` counts the records of the inputs without those that `_skipme` skips (`num_skipped`); `planned_rejects`
    counts, by reason, the records that were found unusable during planning. Worker processes inherit `contents`.
    `knows_seconds` is False if the seconds of audio are unknown, because units measure them, or because the job reads
    no audio; the cost of a unit is then its number of records. `reject_lines` yields the lines
    (`prepcli.engine.publishing.rejects.reject_line`) of the `planned_rejects` in input order. `missing_sample` returns
    an error message if all files of a sample of the input are missing, so that a wrong folder is found at once.
    """

    units: Sequence[UnitT]
    records_in: int
    contents: Contents
    inputs: list[InputFile] = field(default_factory=list)
    planned_rejects: dict[str, int] = field(default_factory=dict)
    num_skipped: int = 0
    notes: list[str] = field(default_factory=list)
    knows_seconds: bool = True
    reject_lines: Callable[[], Iterator[bytes]] = lambda: iter(())
    missing_sample: Callable[[], str | None] = lambda: None

    @property
    def total_cost(self) -> float:
        """The cost of all units, in seconds of audio or in records."""
        return sum(unit.cost for unit in self.units)


AnyPlan = Plan[Any, Any]
"""The plan of any job, as the engine handles it."""


class StoredPlan(msgspec.Struct):
    """The content of `OUT.prepcli/plan.json`: the plan of the run that made OUT, and its command.

    Each of `inputs` has the keys `path` and `sha256`. `run_with` is the command as it was typed, without the options of
    a rank; `run_in` is the folder in which it was typed, and `out` the absolute path of OUT at that time. `seconds` and
    `knows_seconds` are copies from the `Plan`. `writes_file`: whether OUT is a file (`prepcli.engine.state.workspace`).
    `units_bytes` is the size of the file with the units (`prepcli.engine.state.stored_units`). `revisions`: the commits
    of data sets on the hub, by their addresses. `rank_id`: the id of the rank that wrote the file; a run that starts
    again with the same settings has another one.

    For runs with unit folders: `part` as in `prepcli.engine.ledger.Commit`. `built_on` is the digest of the commit on
    which an addition builds. `base` is the folder of an earlier run of the same plan, whose units are kept, except for
    those in `again`, which are done again. `replaces` is the folder of the run that `--overwrite` replaces.
    """

    command: str
    digest: str
    settings: dict[str, Any]
    inputs: list[dict[str, str]]
    records_in: int
    skipped: int
    planned_rejects: dict[str, int]
    seconds: float
    run_with: str
    run_in: str
    num_units: int = 0
    units_bytes: int = 0
    writes_file: bool = False
    out: str = ""
    format: int = 1
    knows_seconds: bool = True
    revisions: dict[str, str] = {}
    rank_id: str = ""
    part: str = ""
    built_on: str = ""
    base: str = ""
    again: list[str] = []
    replaces: str = ""

    def run_again(self, out: str | AnyPath) -> str:
        """The shell command that continues the run; `out` is the current path of OUT, which may have been moved."""
        now = absolute(out)
        if not self.out or now == self.out or is_address(out) or exists(self.out):
            return f"cd {shlex.quote(self.run_in)} && {self.run_with}"
        words = shlex.split(self.run_with)
        moved = [now if os.path.normpath(os.path.join(self.run_in, word)) == self.out else word for word in words]
        return f"cd {shlex.quote(self.run_in)} && {shlex.join(moved)}"


def plan_digest(command: str, settings: dict[str, Any], plan: AnyPlan) -> str:
    """SHA-256 (hex) of everything that shapes the output; two plans with equal digests give the same bytes."""
    content = {
        "format": PLAN_FORMAT,
        "command": command,
        "settings": settings,
        "inputs": [file.sha256 for file in plan.inputs],
    }
    digest = hashlib.sha256(msgspec.json.encode(content, order="sorted"))
    for start in range(0, len(plan.units), _CHUNK):  # in pieces: a text of millions of units would need much memory
        units = plan.units[start : start + _CHUNK]
        digest.update(msgspec.json.encode([[unit.id, unit.num_records] for unit in units]))
    return digest.hexdigest()


def differences(
    earlier: StoredPlan, command: str, settings: dict[str, Any], plan: AnyPlan, defaults: Mapping[str, str]
) -> Iterator[str]:
    """The differences between a run and the stored plan `earlier`, as phrases for a message.

    `defaults`: for the name of a setting, the words that a message uses if the setting is not given.
    """
    if earlier.command != command:
        yield f"by {earlier.command}, not {command}"
        return
    if earlier.format != PLAN_FORMAT:
        yield f"by another version of prepcli (its plan has format {earlier.format}, not {PLAN_FORMAT})"
        return
    before = earlier.settings
    found = False
    for name in sorted({*before, *settings}):
        if before.get(name) != settings.get(name):
            found = True
            was, now = (_shown(given.get(name), defaults.get(name)) for given in (before, settings))
            named = option(name).partition("=")[0]  # in Python, a flag has a value in its name
            yield f"{named}{':' if ' ' in name else ' was'} {was}, now {now}"  # a phrase, such as `audio is named`
    digests = [file.get("sha256") for file in earlier.inputs]
    paths = [absolute(file.get("path", "")) for file in earlier.inputs]
    others = [file for file in plan.inputs if file.sha256 not in digests]
    if found:  # the same file has another digest if a setting names other columns of it
        others = [file for file in others if absolute(file.path) not in paths]
    for file in others:
        found = True
        is_other = len(paths) == len(plan.inputs) == 1 and absolute(file.path) != paths[0]
        if is_other and file.state is not None:  # files that the run itself made have no state
            yield f"the input was {paths[0]}, now {file.path}"
        else:
            yield f"{file.path} has another content"
    if not found:
        yield "the inputs or the version of prepcli have changed"


def _shown(value: Any, default: str | None) -> str:
    if value is None or value == []:
        return f"not given ({default})" if default else "not given"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def pack(units: Sequence[UnitT], num_bins: int) -> list[list[UnitT]]:
    """Distribute units over `num_bins` bins by cost: longest first, each to the least loaded bin. Returns the bins.

    With this greedy rule (longest processing time first), the most loaded bin has at most 4/3 - 1/(3 bins) times the
    best possible load (Graham, 1969, "Bounds on multiprocessing timing anomalies"). Ties are broken by id, so every
    rank computes the same shares. Within a bin the units stay longest first, which also keeps the tail of a run short.
    """
    bins: list[list[UnitT]] = [[] for _ in range(num_bins)]
    loads = [(0.0, index) for index in range(num_bins)]
    for unit in sorted(units, key=lambda unit: (-unit.cost, unit.id)):
        load, index = heapq.heappop(loads)
        bins[index].append(unit)
        heapq.heappush(loads, (load + unit.cost, index))
    return bins


def max_over_mean(costs: Sequence[float]) -> float:
    """The largest cost of a share divided by the mean: 1.0 is perfect; at 2.0 the ranks are idle half of the time."""
    mean = sum(costs) / len(costs)
    return max(costs) / mean if mean else 1.0
