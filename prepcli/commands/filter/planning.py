"""Applies the rules of `filter` to all records, before anything is written."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prepcli.commands.filter.grammar import Quantile
from prepcli.commands.filter.presets import PRESETS
from prepcli.commands.filter.report import RuleTally, table_of, write_page
from prepcli.commands.filter.rules import (
    NEEDS_A_NUMBER,
    FieldCheck,
    Rule,
    RuleCollector,
    quantiles_of,
    shown_quantiles,
)
from prepcli.commands.inspect.outputs import PAGE
from prepcli.engine.publishing.side_files import check_side_file
from prepcli.engine.run.job import RunOptions
from prepcli.engine.state.plan import InputFile
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError, option
from prepcli.formats.names import normal_path
from prepcli.interface.calls import tell
from prepcli.interface.options import PathText
from prepcli.interface.printing import number_of
from prepcli.jobs.duplicate_lines import DuplicateLine, FirstRecords, note_if_nothing, read_duplicate_lines
from prepcli.jobs.held_parts import HeldParts
from prepcli.jobs.records import hash_segments
from prepcli.jobs.same_audio import NUM_FORMS, AudioKeys, forms
from prepcli.jobs.selection import SelectionPlan, Selector, scratch_folder
from prepcli.manifest.index import content_digest
from prepcli.manifest.parts import Collector, Columns, Part
from prepcli.planning.arrays import Growing
from prepcli.planning.hashing import GOLDEN, Hashes, in_sorted, mix64, occurrences
from prepcli.storage.input_files import same_file, state_of

_NO_DROPS = np.uint64(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterSettings:
    """The choices of a call of `filter`.

    Attributes:
        rules: the expressions (`prepcli.commands.filter.rules.rules_of`).
        presets: the names of the presets from which some of them are.
        unique: the fields of `--unique`.
        sample: the share, or the number, of the records to draw; None: all.
        seed: the seed of the draw.
        listed: the file of `--drop-listed`.
        audio_base_dir: the folder from which relative audio paths start.
        marks: whether records that a rule drops are marked, and all are written.
        page: the file of `--html`.
    """

    rules: Sequence[Rule]
    presets: Collection[str] = ()
    unique: tuple[str, ...] = ()
    sample: float | None = None
    seed: int = 0
    listed: Path | None = None
    audio_base_dir: PathText | None = None
    marks: bool = False
    page: Path | None = None

    def __post_init__(self) -> None:
        """Raise `UsageError` if `sample` is neither a share nor a number, or `page` cannot be written."""
        sample = self.sample
        if sample is not None and not (0 < sample < 1 or (sample >= 1 and sample % 1 == 0)):
            raise UsageError(f"{option('--sample')} takes a share below 1 or a number of records, not {sample}")
        if self.page is not None:
            check_side_file("--html", self.page, PAGE)


def plan_of(
    manifests: Sequence[str], wanted: FilterSettings, out: Path, workspace: Workspace, engine: RunOptions
) -> SelectionPlan:
    """Apply the rules, and make the plan. `out` is the manifest to write.

    Each record gets a verdict with a bit for each rule that drops it. Rank 0 writes the page of `--html`. At the start
    of a run, it also prints the records and hours that rules drop.

    Raises:
        UsageError: as by `FilterPlanning.plan`.
    """
    plan = FilterPlanning(manifests, wanted, out.parent, workspace, engine.num_workers).plan()
    facts = plan.contents.facts
    if workspace.rank.rank == 0:
        if wanted.page is not None:
            write_page(facts, plan.notes, f"filter: {out}", wanted.page)
        is_new = engine.overwrite or not workspace.plan_file.exists()
        is_refused = same_file([out], manifests) is not None  # by the run, when it begins
        if is_new and not is_refused and facts["rules"] and not engine.dry_run:
            tell(table_of(facts, plan.notes))
    return plan


class FilterPlanning:
    """Reads the manifests, gives each record a bit per rule that drops it, and adds up the hours that rules drop.

    The bits of expressions come first, then the bits of `--drop-listed`, `--unique` and `--sample`. `--unique` compares
    only the records that the rules before it keep, and `--sample` draws from the records that all other rules keep.
    """

    def __init__(
        self, manifests: Sequence[str], wanted: FilterSettings, out_folder: Path, workspace: Workspace, num_workers: int
    ) -> None:
        """Read the list of `--drop-listed`; the manifests are read by `plan`.

        Raises:
            UsageError: the list cannot be used.
        """
        self._wanted, self._workspace, self._num_workers = wanted, workspace, num_workers
        self._selector = Selector(manifests, wanted.audio_base_dir, out_folder)
        self._rules, self._unique = wanted.rules, wanted.unique
        self._other_unique = tuple(name for name in self._unique if name != "audio_filepath")
        self._fields = FieldCheck(self._rules, self._other_unique)
        lines = read_duplicate_lines("--drop-listed", wanted.listed) if wanted.listed else []
        self._listed = _keys_to_drop(lines) if wanted.listed else None
        self._first_records = FirstRecords(lines)
        self._num_found = 0
        self._compares_files = "audio_filepath" in self._unique
        has_list = self._listed is not None
        is_asked = has_list or self._compares_files
        self._audio = AudioKeys(self._selector.all_base_dirs, looks_up=has_list) if is_asked else None
        self._bits: dict[str, np.uint64] = {}
        is_given = {"listed": has_list, "unique": bool(self._unique), "sample": wanted.sample is not None}
        for name in is_given:
            if is_given[name]:
                self._bits[name] = np.uint64(1 << (len(self._rules) + len(self._bits)))
        self._tally = RuleTally(len(self._rules) + len(self._bits))
        self._folder = scratch_folder(workspace)
        kinds = {"drops": np.uint64, "unique": np.uint64, "sample": np.uint64, "duration": np.float64}
        self._held = HeldParts(self._folder, **kinds) if {"unique", "sample"} & self._bits.keys() else None
        self._has_records = False
        self._num_without_number, self._without_number = 0, ""

    def plan(self) -> SelectionPlan:
        """Read the manifests, and make the plan; its `facts` have the records and hours that each rule drops.

        Raises:
            UsageError: a field does not exist, its type does not fit, or no record is left.
        """
        manifests = self._selector.manifests
        quantiles = self._quantiles()
        columns = self._columns(partial(RuleCollector, self._rules, self._other_unique, quantiles))
        if self._audio is not None:
            columns = self._audio.added_to(columns)
        index = self._selector.read(columns, self._workspace, self._num_workers, self._on_part)
        self._fields.check(manifests)
        if self._held is not None:
            self._decide_together(self._held)
        labels = self._named(quantiles)
        if not self._tally.num_kept:
            rules = self._tally.alone[0]
            most = int(np.argmax(rules))
            raise UsageError(
                f"no record is left: the rules drop all of them; `{labels[most]}` alone drops {int(rules[most]):,}"
            )
        plan = self._selector.plan(index, self._tally.facts(labels), self._notes(), self._wanted.marks)
        if self._wanted.listed is not None:
            path = str(self._wanted.listed)
            plan.inputs.append(InputFile(path, content_digest(path), state_of(path), content_digest))
        return plan

    def _columns(self, collector: Callable[[], Collector]) -> Columns:
        compares = "sample" in self._bits or self._audio is not None
        return Columns(
            offsets=compares, keys=(("path", normal_path),) if "sample" in self._bits else (), collector=collector
        )

    def _on_part(self, source: int, part: Part) -> None:
        files, audio = np.empty(0, np.uint64), np.empty(0, np.uint64)
        if self._audio is not None:
            part, files, audio = self._audio.taken_from(source, part)
        self._fields.add(source, part)
        if not self._has_records and not len(part.duration) and part.problems:
            self._fields.check_types()
        self._has_records |= bool(len(part.duration))
        unique = part.collected.unique
        if self._listed is not None:
            is_listed = in_sorted(self._listed, audio)
            self._num_found += int(np.count_nonzero(is_listed))
            stays = self._first_records.among(self._selector.manifests[source], part, audio, is_listed)
            part.collected.drops[is_listed & ~stays] |= self._bits["listed"]
        if self._compares_files:  # by the real file: two corpora may have equal names
            unique = mix64(files ^ mix64(unique)) if len(unique) else files
        if self._held is None:
            self._consume(source, part, part.collected.drops)
        else:
            keys = [hash_segments(part.keys["path"], part.offset, part.duration)] if "path" in part.keys else []
            drops = part.collected.drops
            self._held.add(source, part, drops=drops, unique=unique, sample=keys, duration=part.duration)

    def _consume(self, source: int, part: Part, drops: NDArray[np.uint64]) -> None:
        """Add the records of a part to the sums and to the plan.

        `drops`: for each record, a bit per rule that drops it, also for the rules that compare records (`--unique`).
        """
        self._tally.add(drops, part.duration, part.collected.groups, part.collected.group_of)
        most = 1 << (len(self._rules) + len(self._bits))
        written = np.ones(len(drops), bool) if self._wanted.marks else drops == _NO_DROPS
        self._selector.add(source, part, drops.astype(np.min_scalar_type(most - 1)), written)

    def _decide_together(self, held: HeldParts) -> None:
        """Apply the rules that compare records (`--unique`, `--sample`); then add all parts to the sums and the plan.

        `held`: the parts of all manifests, kept until all are read.
        """
        columns = held.arrays()
        drops, duration = columns["drops"], columns["duration"]
        alone: dict[str, NDArray[np.bool_]] = {}
        if "unique" in self._bits:
            keys = columns["unique"]
            alone["unique"] = _repeated(keys)
            kept = np.flatnonzero(drops == _NO_DROPS)
            drops[kept[_repeated(keys[kept])]] |= self._bits["unique"]
        if "sample" in self._bits:
            keys = columns["sample"]
            with np.errstate(over="ignore"):
                keys = mix64(keys + np.uint64(self._wanted.seed % 2**64) * GOLDEN)
            alone["sample"] = self._not_drawn(keys)
            kept = np.flatnonzero(drops == _NO_DROPS)
            drops[kept[self._not_drawn(keys[kept])]] |= self._bits["sample"]
        for source, part, here in held.parts(drops):
            self._consume(source, part, here)
        for name, which in alone.items():
            number = len(self._rules) + list(self._bits).index(name)
            self._tally.alone[:, number] = np.count_nonzero(which), duration[which].sum()

    def _not_drawn(self, keys: Hashes) -> NDArray[np.bool_]:
        """Whether each record is outside of the sample, which consists of the records with the smallest keys."""
        sample = self._wanted.sample
        assert sample is not None
        count = int(sample) if sample >= 1 else round(sample * len(keys))
        outside = np.ones(len(keys), bool)
        outside[np.argsort(keys, kind="stable")[:count]] = False
        return outside

    def _named(self, quantiles: Mapping[Quantile, float]) -> list[str]:
        wanted = self._wanted
        named = {
            "listed": f"listed in {wanted.listed}",
            "unique": f"unique {', '.join(self._unique)}",
            "sample": f"sample {wanted.sample:g}" if wanted.sample is not None else "",
        }
        rules = [f"{rule}{shown_quantiles(quantiles, rule)}" for rule in self._rules]
        return [*rules, *(named[name] for name in self._bits)]

    def _notes(self) -> list[str]:
        notes = [
            f"{preset.source} for preset {name}{f'; without {preset.without}' if preset.without else ''}"
            for name, preset in PRESETS.items()
            if name in self._wanted.presets
        ]
        if self._num_without_number:
            notes.append(
                f"quantile leaves out {number_of(self._num_without_number, 'record')}, such as: {self._without_number}"
            )
        if self._listed is not None and self._wanted.listed is not None:
            num_listed = len(self._listed) // NUM_FORMS
            but = " after the first of a group"
            notes += note_if_nothing("--drop-listed", self._wanted.listed, num_listed, self._num_found, but)
        sample = self._wanted.sample
        if sample is not None and sample > self._tally.num_kept:
            notes.append(
                f"{option('--sample', f'{sample:g}')}: only {number_of(self._tally.num_kept, 'record', 'are')} left"
            )
        return [*notes, *self._fields.notes()]

    def _quantiles(self) -> dict[Quantile, float]:
        """The value of each `quantile(...)` in the rules, exact, by linear interpolation; NaN if no record has a value.

        Reads all manifests if a rule has a quantile.

        Raises:
            UsageError: no value is a number, and some are of another type.
        """
        found = quantiles_of(self._rules)
        if not found:
            return {}
        wanted = tuple(dict.fromkeys(one.argument for one in found))
        numbers = [Growing(self._folder, np.float64) for _ in wanted]

        def on_part(_: int, part: Part) -> None:
            for problem in part.problems:
                if problem.detail.endswith(NEEDS_A_NUMBER):
                    self._num_without_number += 1
                    self._without_number = self._without_number or problem.detail
            for kept, more in zip(numbers, part.collected.numbers, strict=True):
                kept.append(more)

        columns = self._columns(partial(RuleCollector, (), wanted=wanted))
        self._selector.read(columns, self._workspace, self._num_workers, on_part)
        arrays = dict(zip(wanted, (kept.array() for kept in numbers), strict=True))
        if self._num_without_number and not any(map(len, arrays.values())):
            raise UsageError(f"no record has a number for quantile: {self._without_number}")
        return {
            one: float(np.quantile(values, one.share, overwrite_input=True)) if len(values) else float("nan")
            for one in found
            for values in [arrays[one.argument]]
        }


def _repeated(keys: Hashes) -> NDArray[np.bool_]:
    """Whether an earlier record has the same key; records without a key (0) are all different."""
    found: NDArray[np.bool_] = (occurrences(keys) > 0) & (keys != 0)
    return found


def _keys_to_drop(lines: Sequence[DuplicateLine]) -> Hashes:
    """The sorted keys of the audio that the list of `--drop-listed` drops."""
    return np.sort(forms(one.audio for one in lines if one.duplicate_place).ravel())
