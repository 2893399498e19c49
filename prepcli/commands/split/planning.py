"""Reads the manifests of `split`, and gives each record the number of its part."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.commands.split.drawing import NO_PART, Groups, draw
from prepcli.commands.split.parts import Asked
from prepcli.engine.state.plan import InputFile
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, UsageError, option
from prepcli.formats.names import absolute_folder, normal_path, path_in
from prepcli.interface.options import PathText
from prepcli.interface.printing import number_of
from prepcli.jobs.compared_field import note_on_missing
from prepcli.jobs.duplicate_lines import KeyPairs, note_if_nothing, pairs_of, read_duplicate_lines
from prepcli.jobs.held_parts import HeldParts
from prepcli.jobs.records import hash_segments
from prepcli.jobs.same_audio import Audio, AudioKeys, forms, part_of
from prepcli.jobs.selection import (
    SelectionPlan,
    Selector,
    did_you_mean,
    scratch_folder,
)
from prepcli.manifest.columns import key_bytes
from prepcli.manifest.fields import decode_value
from prepcli.manifest.index import content_digest
from prepcli.manifest.lines import read_line
from prepcli.manifest.normal_text import normal_text
from prepcli.manifest.parts import Columns, Part
from prepcli.manifest.record import Record
from prepcli.manifest.scan import Range, lines_of
from prepcli.planning.hashing import Hashes, in_sorted
from prepcli.storage.containers import place_of
from prepcli.storage.input_files import state_of
from prepcli.storage.paths import AnyPath

NONE = "none"
_DEFAULT = "speaker"
_KEYS = ("group", "stratum", "text", "name", "segment", "audio")
LEFT_OUT = ("in no part", "its text is in a smaller part", "a duplicate of it is in a smaller part")


class KeyCollector:
    """Collects three hashes of each record: of its group, of its values to balance, and of its text.

    The hash of a missing group or text is 0.
    """

    def __init__(self, by: str, balance: Sequence[str], text: bool) -> None:
        """`by`: the field of groups, or empty; `balance`: the fields to balance; `text`: whether texts are compared."""
        self._by, self._balance, self._text = by, balance, text
        fields = dict.fromkeys([*([by] if by else ()), *balance, *(["text"] if text else ())])
        self.fields: Sequence[str] = tuple(fields) or ("duration",)
        self._columns: dict[str, list[bytes]] = {"group": [], "stratum": [], "text": []}
        self._present: set[str] = set()

    def add(self, values: Sequence[list[Any]]) -> None:
        """Add the hashes of the next records; `values`: for each field of `fields`, the values in these records."""
        fields = dict(zip(self.fields, values, strict=True))
        if self._by:
            self._columns["group"] += [key_bytes(_text(value)) for value in fields[self._by]]
        if self._balance:
            rows = zip(*(fields[name] for name in self._balance), strict=True)
            self._columns["stratum"] += [key_bytes("\0".join(map(_text, row)) + "\0") for row in rows]
        self._present.update(name for name in self._balance if any(value is not None for value in fields[name]))
        if self._text:
            texts = (text if isinstance(text, str) else "" for text in fields["text"])
            self._columns["text"] += [key_bytes(normal_text(text)) for text in texts]

    def result(self) -> tuple[set[str], dict[str, Hashes]]:
        """The balanced fields that at least one record has, and the hashes of all records.

        The hashes are in the arrays `group`, `stratum` and `text`; arrays that are not needed are empty.
        """
        columns = {name: np.frombuffer(b"".join(hashes), "<u8") for name, hashes in self._columns.items()}
        return self._present, columns


def _places(path: str, folder: str, base_dirs: Sequence[str]) -> list[str]:
    """The files that a path in an earlier split may name: one in its `folder`, else in those of the manifests."""
    own, *others = (path_in(base, path) for base in (folder, *base_dirs))
    place = place_of(own)
    return [own] if os.path.exists(own if place is None else place.path) else list(dict.fromkeys([own, *others]))


def _text(value: Any) -> str:
    return "" if value is None else str(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitSettings:
    """The choices of a call of `split`.

    Attributes:
        parts: the parts.
        by: the field of groups, or `NONE`; None: speakers, if there are any.
        balance: the fields of `--balance`, between commas.
        seed: the seed of the draw.
        keep_parts: the folder of an earlier split.
        is_disjoint: whether no text may be in two parts.
        listed: the file of `--disjoint-listed`.
    """

    parts: Sequence[Asked]
    by: str | None
    balance: str | None
    seed: int
    keep_parts: Path | None
    is_disjoint: bool
    listed: Path | None

    @property
    def names(self) -> list[str]:
        """The name of the file of each part."""
        return [f"{part.name}.json" for part in self.parts]


class SplitPlanning:
    """Reads the manifests, and draws the parts.

    The verdict of a record is the number of its part. Higher verdicts are reasons to leave the record out (`LEFT_OUT`).
    """

    def __init__(
        self,
        manifests: Sequence[str],
        wanted: SplitSettings,
        audio_base_dir: PathText | None,
        out: AnyPath,
        num_workers: int,
    ) -> None:
        """`out`: the folder of the parts.

        Raises:
            UsageError: `--by` is empty.
        """
        self._manifests, self._wanted, self._num_workers = manifests, wanted, num_workers
        self._audio_base_dir, self._out = audio_base_dir, out
        self._names, self._parts = wanted.names, wanted.parts
        self._balance = tuple(name.strip() for name in (wanted.balance or "").split(",") if name.strip())
        if wanted.by is not None and not wanted.by.strip():
            raise UsageError(f"{option('--by')} takes a field, or none")

    def plan(self, workspace: Workspace) -> SelectionPlan:
        """Read the manifests, and draw the parts."""
        selector = Selector(self._manifests, self._audio_base_dir, self._out)
        by = self._wanted.by or _DEFAULT
        of_groups = "" if by == NONE else by
        held = HeldParts(scratch_folder(workspace), **dict.fromkeys(_KEYS, np.uint64), duration=np.float64)
        present: set[str] = set()
        is_asked = self._wanted.listed is not None or self._wanted.keep_parts is not None
        audio = AudioKeys(selector.all_base_dirs, looks_up=is_asked)

        def on_part(source: int, part: Part) -> None:
            part, files, own = audio.taken_from(source, part)
            names, columns = part.collected
            present.update(names)
            paths = part.keys["path"], files
            name, segment = (hash_segments(hashes, part.offset, part.duration) for hashes in paths)
            rest = replace(part, collected=None, keys={})
            held.add(source, rest, **columns, name=name, segment=segment, audio=own, duration=part.duration)

        collector = partial(KeyCollector, of_groups, self._balance, self._wanted.is_disjoint)
        columns = audio.added_to(Columns(keys=(("path", normal_path),), collector=collector))
        index = selector.read(columns, workspace, self._num_workers, on_part)
        keys = Keys(**held.arrays())
        notes = self._check_fields(by, keys, present)
        kept = self._kept(selector.all_base_dirs, of_groups, keys)
        if (folder := self._wanted.keep_parts) is not None and (kept == NO_PART).all():
            notes.append(f"{option('--keep-parts', folder)}: none of its records is in the manifests")
        group_name = by if keys.has_groups else "record"
        groups, group_of = _grouped(keys, kept, group_name)
        if (moved := np.flatnonzero((kept != NO_PART) & (groups.kept[group_of] != kept))).size:
            raise self._in_both(group_name, int(kept[moved[0]]), int(groups.kept[group_of[moved[0]]]))
        part_of = draw(groups, self._parts, self._wanted.seed)[group_of]
        verdicts = np.where(part_of == NO_PART, len(self._parts), part_of).astype(np.uint8)
        if self._wanted.is_disjoint:
            texts = np.flatnonzero(keys.text)
            no_text = len(keys.text) - len(texts)
            remedy = f"leave out {option('--disjoint')}"
            notes += note_on_missing("text", no_text, len(keys.text), ", ".join(self._manifests), remedy)
            self._leave_out(verdicts, keys.duration, KeyPairs(texts, keys.text[texts]), len(self._parts) + 1)
        if (listed := self._wanted.listed) is not None:
            lines = read_duplicate_lines("--disjoint-listed", listed)
            pairs = pairs_of(lines, keys.audio)
            notes += note_if_nothing("--disjoint-listed", listed, len(lines), len(pairs.records))
            self._leave_out(verdicts, keys.duration, pairs, len(self._parts) + 2)
        self._refuse_empty(verdicts)
        facts = {"parts": self._facts(verdicts, keys, group_of)}
        if (verdicts == len(self._parts)).any():
            notes.append(f"records in no part are left out; {option('--part', 'NAME=rest')} takes them")
        for source, part, here in held.parts(verdicts):
            selector.add(source, part, here, here < len(self._parts))
        plan = selector.plan(index, facts, notes)
        for path in (*self._earlier(), *([] if listed is None else [str(listed)])):
            plan.inputs.append(InputFile(path, content_digest(path), state_of(path), content_digest))
        return plan

    def _check_fields(self, by: str, keys: "Keys", present: Collection[str]) -> list[str]:
        """Check that the fields of `--by` and `--balance` exist; returns notes on records without a group."""
        if by != NONE and not keys.has_groups and self._wanted.by is not None:
            raise UsageError(f"{option('--by', by)}: no record has this field{did_you_mean(by, self._manifests)}")
        for name in self._balance:
            if name not in present:
                hint = did_you_mean(name, self._manifests)
                raise UsageError(f"{option('--balance')}: no record has the field {name}{hint}")
        notes = []
        if not keys.has_groups and by != NONE:
            notes.append("no record has a speaker: each record is drawn for itself")
        elif by != NONE and (missing := int(np.count_nonzero(keys.group == 0))):
            notes.append(
                f"{number_of(missing, 'record')} without {by} {'is' if missing == 1 else 'are'} drawn one by one"
            )
        return notes

    def _earlier(self) -> list[str]:
        """The manifests of the earlier split: the files in the folder `--keep-parts` with the name of a part to make.

        Empty without the option.

        Raises:
            UsageError: the folder has none of these files.
        """
        folder = self._wanted.keep_parts
        if folder is None:
            return []
        parts = [str(folder / name) for name in self._names if (folder / name).is_file()]
        if not parts:
            raise UsageError(f"{option('--keep-parts', folder)} has none of {', '.join(self._names)}")
        return parts

    def _kept(self, base_dirs: Sequence[str], by: str, keys: "Keys") -> NDArray[np.int64]:
        """For each record, the number of the part that had it in the earlier split; `NO_PART` if no part had it.

        A part had the record if it had a record of the same group, such as the same speaker. For a record without a
        group, or whose group is new, the part must have had the same segment of audio.

        Args:
            base_dirs: for each manifest, the folder from which its relative audio paths start.
            by: the field of groups; empty if there are no groups.
            keys: the hashes of all records.

        Raises:
            UsageError: two parts of the earlier split had the same group.
        """
        of_name = np.full(len(keys.duration), NO_PART, np.int64)
        of_segment = of_name.copy()
        for path in self._earlier():
            number, folder = self._names.index(Path(path).name), absolute_folder(os.path.dirname(path))
            records = self._records_of(path)
            if by and keys.has_groups:
                named = {_text(decode_value(record.fields[by])) for record in records if by in record.fields}
                hashes = np.sort(np.frombuffer(b"".join(map(key_bytes, named - {""})), "<u8"))
                has_name = in_sorted(hashes, keys.group)
                if (other := of_name[has_name & (of_name != NO_PART)]).size:
                    raise self._in_both(by, int(other[0]), number)
                of_name[has_name] = number
            audio = [
                Audio(path, record.offset, record.duration, part_of(record.get("channel"), record.get("conversations")))
                for record in records
                for path in _places(record.audio_filepath, folder, base_dirs)
            ]
            of_segment[in_sorted(np.sort(forms(audio).ravel()), keys.audio)] = number
        return np.where(of_name == NO_PART, of_segment, of_name)

    def _records_of(self, path: str) -> list[Record]:
        """The records of a manifest of the earlier split."""
        records = []
        for number, line in enumerate(lines_of(Range(path, 0, None)), 1):
            try:
                usable = read_line(line, cuts=False)
            except RecordRejected as rejected:
                where = option("--keep-parts", self._wanted.keep_parts)
                raise UsageError(f"{where}: {path}:{number} cannot be used: {rejected.detail}; repair it") from None
            if usable is not None and usable.record is not None:
                records.append(usable.record)
        return records

    def _in_both(self, by: str, first: int, other: int) -> UsageError:
        return UsageError(
            f"{option('--keep-parts', self._wanted.keep_parts)}: a {by} is in {self._names[first]} and in "
            f"{self._names[other]}, so both cannot be kept; give the {option('--by')} of that split"
        )

    def _leave_out(
        self, verdicts: NDArray[np.uint8], duration: NDArray[np.float64], pairs: KeyPairs, verdict: int
    ) -> None:
        """Leave out a record if a smaller part has a record with the same key: its verdict becomes `verdict`.

        The part with fewer seconds of audio is the smaller one. `pairs`: the numbers of records and their keys.
        """
        seconds = [float(duration[verdicts == number].sum()) for number in range(len(self._parts))]
        seen = np.empty(0, np.uint64)
        for number in sorted(range(len(self._parts)), key=lambda number: seconds[number]):
            is_here = verdicts[pairs.records] == number
            verdicts[pairs.records[is_here & in_sorted(seen, pairs.keys)]] = verdict
            seen = np.union1d(seen, pairs.keys[verdicts[pairs.records] == number])

    def _refuse_empty(self, verdicts: NDArray[np.uint8]) -> None:
        """Raise `UsageError` if a part has lost all its records to `_leave_out`; `draw` refuses others."""
        sizes = np.bincount(verdicts, minlength=len(self._parts))
        if empty := [part.name for part, size in zip(self._parts, sizes.tolist(), strict=False) if not size]:
            given = {"--disjoint": self._wanted.is_disjoint, "--disjoint-listed": self._wanted.listed is not None}
            options = " and ".join(option(name) for name, is_given in given.items() if is_given)
            raise UsageError(
                f"nothing is left for {empty[0]}: {options} would leave out all its records, which are in smaller "
                f"parts too; leave {options} out, or ask for less in the other parts"
            )

    def _facts(self, verdicts: NDArray[np.uint8], keys: "Keys", group_of: NDArray[np.int64]) -> list[dict[str, Any]]:
        rows = []
        names = [*((part.name, part.text) for part in self._parts), *((why, "") for why in LEFT_OUT)]
        for number, (name, asked) in enumerate(names):
            here = verdicts == number
            if number < len(self._parts) or here.any():
                row: dict[str, Any] = {"part": name, "asked": asked, "records": int(np.count_nonzero(here))}
                row["hours"] = round(float(keys.duration[here].sum()) / 3600, 4)
                row["groups"] = len(np.unique(group_of[here]))
                rows.append(row)
        return rows


@dataclass(frozen=True, slots=True)
class Keys:
    """Arrays of shape (records,), or empty if they are not needed.

    Attributes:
        group: hash of the value of the field of `--by`; 0 for a record without this field.
        stratum: hash of the values to balance.
        text: hash of the text without case and punctuation; 0 for a record without text.
        name: hash of path, offset and duration, which is the same wherever the data lie.
        segment: hash of the real file, offset and duration.
        audio: key of the audio (`prepcli.jobs.same_audio`); empty unless records are looked for.
        duration: seconds.
    """

    group: Hashes
    stratum: Hashes
    text: Hashes
    name: Hashes
    segment: Hashes
    audio: Hashes
    duration: NDArray[np.float64]

    @property
    def has_groups(self) -> bool:
        """Whether at least one record has the field by which records are grouped."""
        return bool((self.group != 0).any())


def _grouped(keys: Keys, kept: NDArray[np.int64], name: str) -> tuple[Groups, NDArray[np.int64]]:
    """The groups of all records, and the number of the group of each record.

    A record without the field of `--by` is in a group with the records of the same segment: equal file, offset and
    duration. The name of the first of them decides in the draw, so that it does not depend on where the data lie.
    `kept`: the part of each record in an earlier split, or `NO_PART`. `name`: what messages call a group.
    """
    of_record, of_name = (
        np.where(keys.group != 0, keys.group, other) if keys.has_groups else other
        for other in (keys.segment, keys.name)
    )
    _, first, group_of = np.unique(of_record, return_index=True, return_inverse=True)
    order = np.lexsort((first, of_name[first]))
    names, group_of = of_name[first[order]], np.argsort(order)[group_of]
    count = len(names)
    seconds = np.bincount(group_of, keys.duration, count).astype(np.float64)
    strata = np.zeros(count, np.int64)
    if len(keys.stratum):
        values, value_of = np.unique(keys.stratum, return_inverse=True)
        most: NDArray[np.float64] = np.zeros(count)
        for number in range(len(values)):  # finds the value that has most seconds in each group
            here = value_of == number
            amount = np.bincount(group_of[here], keys.duration[here], count)
            strata[amount > most], most = number, np.maximum(most, amount)
    parts = np.full(count, NO_PART, np.int64)
    has_part = kept != NO_PART
    parts[group_of[has_part]] = kept[has_part]
    groups = Groups(names, seconds, np.bincount(group_of, minlength=count), strata, parts, name)
    return groups, group_of
