"""A Lhotse Shar set in a folder, and its codes, which may lie in a folder without cuts."""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Any

from prepcli.errors import UsageError
from prepcli.formats.codes import CODES_FILE, CODES_OF
from prepcli.formats.folders import Listing, listing, numbered, two_of_a_shard
from prepcli.formats.names import MIRROR
from prepcli.formats.shar import AUDIO_FILE, AUDIO_NAME, CUTS_FILE, CUTS_NAME, RECORDING, TARGET, shard_text
from prepcli.formats.stored_set import Shards, StoredSet, pattern
from prepcli.formats.training_config import shar_entry
from prepcli.storage.paths import AnyPath

_FLAT_FIELD = re.compile(r"(?P<field>.+)\.(?P<number>\d+)\.tar(\.gz)?$")


class SharSet(StoredSet):
    """A Lhotse Shar set: a folder for each field, or (`is_flat`) the files of all fields in one folder."""

    kind = "shar"
    index_kind = "shar_tar"

    def __init__(self, folder: AnyPath, listed: Listing | None = None, *, is_flat: bool = False) -> None:
        super().__init__(folder, listed)
        self.is_flat = is_flat

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "SharSet | None":
        """The set in a folder with files of cuts, or in which a run has `published` some; else None."""
        below = listing(folder / "cuts").files if "cuts" in listed.folders else []
        if any(map(CUTS_FILE.match, below)) or any(name.startswith("cuts/") for name in published):
            return cls(folder, listed)
        return cls(folder, listed, is_flat=True) if any(map(CUTS_FILE.match, listed.files)) else None

    def title(self, *, is_file: bool = False) -> str:
        """The words for the two layouts."""
        return "a Lhotse Shar in one flat folder" if self.is_flat else "a Lhotse Shar data set"

    @property
    def is_for_nemo(self) -> bool:
        """A flat folder may have cuts alone, without which the set is of no use."""
        return not self.is_flat or bool(self.audio)

    @property
    def mirror(self) -> AnyPath:
        """The folder `index` of the set; next to a flat set, `set.index` for `set`."""
        if not self.is_flat:
            return self.folder / MIRROR
        named = self.folder if self.folder.name not in ("", "..") else self.folder.resolve()
        return named.with_name(f"{named.name}.{MIRROR}")

    @property
    def ambiguous_fields(self) -> list[str]:
        """The fields of codes, if there are codes of several codecs."""
        several = len({name.partition("/")[0] for name in self.codes}) > 1
        return [name.rpartition("/")[2] for name in self.codes] if several else []

    def check_loadable(self) -> None:
        """Raise `UsageError` if the numbers of the shards have gaps."""
        if any(isinstance(names, list) for names in self.entry()["shar_path"].values()):
            raise UsageError(f"{self.folder}: the numbers of its shards have gaps; prepcli verify {self.folder}")

    def is_checked(self, published: Collection[str]) -> bool:
        """Only a set with folders: flat ones are parts of others, such as the cuts of text contexts."""
        return not self.is_flat

    @cached_property
    def shards(self) -> Shards:
        """The file of cuts of each shard."""
        return numbered(self._of_cuts, CUTS_FILE)

    def cuts(self) -> Shards:
        """The file of cuts of each shard; raises `UsageError` if there are no cuts."""
        if not self.shards:
            raise UsageError(f"{self.folder} is not a Lhotse Shar set: it has no cuts/cuts.<number>.jsonl.gz")
        return self.shards

    @property
    def _of_cuts(self) -> AnyPath:
        return self.folder if self.is_flat else self.folder / "cuts"

    @cached_property
    def audio(self) -> dict[str, Shards]:
        """The tars of each field of audio, such as `target_audio`."""
        if self.is_flat:
            return {name: tars for name, tars in self._flat.items() if not name.endswith("_codes")}
        others = ((name, self.folder / name) for name in self.listed.folders if name != "cuts")
        return {name: tars for name, place in others if (tars := numbered(place, AUDIO_FILE))}

    @cached_property
    def codes(self) -> dict[str, Shards]:
        """The tars of each field of codes, such as `codes_21fps/target_codes`."""
        if self.is_flat:
            return {name: tars for name, tars in self._flat.items() if name.endswith("_codes")}
        return codes_below(self.folder, self.listed)

    def gaps(self) -> list[str]:
        """The problems with numbers of shards: every field must have the shards 0 to N - 1."""
        fields = {"cuts": self.shards, **self.audio}
        count = 1 + max(max(shards, default=-1) for shards in fields.values())
        problems = []
        for name, shards in fields.items():
            file = CUTS_NAME if name == "cuts" else AUDIO_NAME.format(name, "{}")
            if missing := [file.format(shard_text(number)) for number in range(count) if number not in shards]:
                problems.append(
                    f"{', '.join(missing)}: missing; the shards of every field must be numbered 0 to {count - 1}"
                )
        return problems + gaps_of_codes(self.codes, self.shards)

    @cached_property
    def _flat(self) -> dict[str, Shards]:
        fields: dict[str, Shards] = {}
        for name in self.listed.files:
            if match := _FLAT_FIELD.match(name):
                path = self.folder / name
                other = fields.setdefault(match["field"], {}).setdefault(int(match["number"]), path)
                if other is not path:
                    raise two_of_a_shard(other, path)
        return {name: dict(sorted(tars.items())) for name, tars in fields.items()}

    def files(self) -> Iterator[AnyPath]:
        """The cuts, and the tars of all fields."""
        for shards in (self.shards, *self.audio.values(), *self.codes.values()):
            yield from shards.values()

    def record_files(self) -> tuple[str, ...]:
        """The paths of the files of cuts, sorted by name as in lhotse.

        A file may have no number in its name: lhotse writes a single shard as `cuts.jsonl.gz`.

        Raises:
            UsageError: a shard has both compressed and plain cuts.
        """
        names: dict[str, str] = {}
        for name in self.listed.files if self.is_flat else listing(self._of_cuts).files:
            if name.startswith("cuts.") and name.endswith((".jsonl", ".jsonl.gz")):
                other = names.setdefault(name.removesuffix(".gz"), name)
                if other is not name:
                    raise two_of_a_shard(self._of_cuts / other, self._of_cuts / name)
        return tuple(str(self._of_cuts / name) for name in names.values())

    def entry(self) -> dict[str, Any]:
        """The entry in an `input_cfg` for the set; its paths are absolute.

        All codecs use the same field names for codes. If the set has codes of several codecs, the entry has those of
        the last one by name.
        """
        audio = sorted(self.audio, key=lambda name: (name not in (RECORDING, TARGET), name))
        fields = {"cuts": self.shards} | {name: self.audio[name] for name in audio}
        fields |= {name.rpartition("/")[2]: tars for name, tars in self.codes.items()}
        return shar_entry({name: pattern(files) for name, files in fields.items()})


class CodesSet(StoredSet):
    """Tars with codec codes in a folder without cuts.

    The tars are in folders such as `codes_21fps/target_codes`, or directly in `target_codes`.
    """

    kind = "codes"
    index_kind = "shar_tar"

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "CodesSet | None":
        """The set in a folder with tars of codes, or in which a run has `published` some; else None."""
        coded = cls(folder, listed)
        should_be = (name.startswith("codes_") and name.endswith(".tar") for name in published)
        return coded if coded.fields or any(should_be) else None

    def title(self, *, is_file: bool = False) -> str:
        """The same words for all."""
        return "codec codes of a Shar"

    @property
    def mirror(self) -> AnyPath:
        """The folder `index` next to the codes."""
        return self.folder / MIRROR

    @cached_property
    def fields(self) -> dict[str, Shards]:
        """The tars of each field of codes, by the path of the field's folder below the set."""
        own = {name: numbered(self.folder / name, CODES_FILE) for name in self.listed.folders if is_codes_field(name)}
        return {name: tars for name, tars in own.items() if tars} | codes_below(self.folder, self.listed)

    def gaps(self, cuts: Shards) -> list[str]:
        """A problem for each number of a shard that only a field, or only the `cuts` of the Shar set, have."""
        return gaps_of_codes(self.fields, cuts)

    def files(self) -> Iterator[AnyPath]:
        """The tars of all fields."""
        for tars in self.fields.values():
            yield from tars.values()


def gaps_of_codes(fields: Mapping[str, Shards], cuts: Shards) -> list[str]:
    """A problem for each number of a shard that only a field of codes, or only the cuts, have."""
    problems = []
    for name, tars in fields.items():
        for number in sorted(set(cuts) ^ set(tars)):
            which = "missing" if number in cuts else "there are no such cuts"
            problems.append(f"{name}/codes.{shard_text(number)}.tar: {which}")
    return problems


def codes_below(folder: AnyPath, listed: Listing) -> dict[str, Shards]:
    """The tars of each field of codes, by the path of its folder below `folder`, such as `codes_21fps/target_codes`."""
    places = [
        f"{name}/{field}"
        for name in listed.folders
        if name.startswith("codes_")
        for field in listing(folder / name).folders
        if is_codes_field(field)
    ]
    return {place: tars for place in places if (tars := numbered(folder / place, CODES_FILE))}


def is_codes_field(name: str) -> bool:
    """Whether a field of an entry holds codec codes, and not audio."""
    return name in CODES_OF.values()
