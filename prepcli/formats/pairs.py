"""The items of a Shar tar: pairs of data and manifest, both named by the cut's id."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prepcli.formats.tar import read_members


@dataclass(frozen=True, slots=True)
class Pair:
    """One item: its data's member name, the data, and its manifest's text."""

    name: str
    data: bytes
    manifest: bytes

    @property
    def cut_id(self) -> str:
        """The name without its extension, as the reader compares it with the cut's id."""
        return self.name.rpartition(".")[0]

    @property
    def is_placeholder(self) -> bool:
        """Whether it is what lhotse writes for a cut that lacks this field."""
        return self.name.endswith(".nodata")


def read_pairs(tar: Path, where: str, sha256: str | None, problems: list[str]) -> Iterator[Pair]:
    """Data and manifest of each item; what is wrong with the archive as such is added to `problems`."""
    name, data = "", None
    members = read_members(tar, where, sha256, problems)
    for info, content in members:
        member = info.name
        if data is None:
            name, data = member, content
            continue
        if member.rpartition(".")[0] != name.rpartition(".")[0] or not member.endswith((".json", ".nometa")):
            problems.append(f"{where}: {name} is followed by {member}, not by its manifest")
            for _ in members:  # to the end, for the digest
                pass
            return
        yield Pair(name, data, content)
        data = None
    if data is not None:
        problems.append(f"{where}: {name} has no manifest after it")
