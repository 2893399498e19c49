"""A matrix of 44 damages of four kinds of sets, each with the state of the run beside the set and without.

With its state, each damage is found, if only by the hash of a file. Without, a damage that leaves a set as another run
could have made it cannot be found: the table gives the reason, and the test expects that `verify` finds nothing.
"""

import gzip
import io
import json
import os
import re
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile

from tests.conftest import copy_set, read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli
from tests.support.shar_sets import Members, read_cuts, rewrite_tar, with_contexts

CONSISTENT = "the set is as if another text or other audio had been its input"
NO_COUNT = "nothing in the set says how many files it has"
NO_DURATION = "nothing in the set says how long the audio of a text is"

TARRED, MANIFEST, WHOLE = "audio_1.tar", "sharded_manifests/manifest_1.json", "tarred_audio_manifest.json"
CUTS, TARGET, CONTEXT = (
    "cuts/cuts.000001.jsonl.gz",
    *(f"{n}_audio/recording.000001.tar" for n in ("target", "context")),
)
WENET, PARQUET = "shards_000000001.tar", "data-000001.parquet"


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a set of each kind under its name: 10 records of different lengths in two shards."""
    folder = tmp_path_factory.mktemp("sets")
    records = []
    for number in range(10):
        seconds = round(0.4 + 0.05 * number, 2)
        write_audio(folder / f"u{number}.flac", seconds, seed=number)
        speaker = f"| Language:en Dataset:d Speaker:{number % 2} |"
        record = {
            "audio_filepath": f"u{number}.flac",
            "duration": seconds,
            "text": f"text {number}",
            "speaker": speaker,
        }
        records.append(record)
    manifest = write_lines(folder / "m.json", with_contexts(records))
    assert prepcli("manifest-to-tarred", manifest, folder / "tarred", "--num-shards", 2).code == 0
    assert prepcli("manifest-to-shar", manifest, folder / "shar", "--shard-size", 5).code == 0
    options = ("--shard-size", 5, "--relative-to", folder / "wenet")
    assert prepcli("manifest-to-wenet", manifest, folder / "wenet", *options).code == 0
    assert prepcli("manifest-to-parquet", manifest, folder / "parquet", "--shard-size", 5).code == 0
    return folder


def flip_in_member(number: int, header: bool, path: Path) -> None:
    """Flip a bit in the middle of the member `number` (from 0) of a tar, or in the size in its header."""
    with tarfile.open(path) as tar:
        member = tar.getmembers()[number]
    flip(path, member.offset + 130 if header else member.offset_data + member.size // 2)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def cut_member(path: Path) -> None:
    """End a file in the middle."""
    os.truncate(path, path.stat().st_size // 2)


def cut_end(path: Path) -> None:
    """Remove the end blocks of a tar, which readers do without."""
    os.truncate(path, path.stat().st_size - 1024)


def remove(first: int, count: int) -> Callable[[Path], None]:
    """Remove members of a tar."""
    return partial(rewrite_tar, change=lambda content: content.__delitem__(slice(first, first + count)))


def double(first: int, count: int) -> Callable[[Path], None]:
    """Have members of a tar twice."""

    def change(content: Members) -> None:
        content[first:first] = content[first : first + count]

    return partial(rewrite_tar, change=change)


def swap_data(first: int, second: int) -> Callable[[Path], None]:
    """Swap the bytes of two members, which keep their names."""

    def change(content: Members) -> None:
        (one, a), (other, b) = content[first], content[second]
        content[first], content[second] = (one, b), (other, a)

    return partial(rewrite_tar, change=change)


def swap_pairs(path: Path) -> None:
    def change(content: Members) -> None:
        content[2:4], content[4:6] = content[4:6], content[2:4]

    rewrite_tar(path, change)


def set_data(number: int, of: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Give a member of a tar other bytes."""

    def change(content: Members) -> None:
        content[number] = (content[number][0], of(content[number][1]))

    return partial(rewrite_tar, change=change)


def shorter_audio(data: bytes) -> bytes:
    """The first half of the samples, as a file that is whole."""
    audio, rate = soundfile.read(io.BytesIO(data), dtype="int16")
    file = io.BytesIO()
    soundfile.write(file, audio[: len(audio) // 2], rate, format=soundfile.info(io.BytesIO(data)).format)
    return file.getvalue()


def unlink(path: Path) -> None:
    path.unlink()


def lines(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change lines of the manifest of shard 1 of a tarred set, and so those of the whole manifest."""
    records = read_lines(path)
    change(records)
    write_lines(path, records)
    out = path.parent.parent
    write_lines(out / WHOLE, [*read_lines(out / "sharded_manifests/manifest_0.json"), *records])


def cuts(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    found = read_cuts(path)
    change(found)
    path.write_bytes(gzip.compress("".join(json.dumps(cut) + "\n" for cut in found).encode(), mtime=0))


def other_text(records: list[dict[str, Any]]) -> None:
    one = records[0].get("supervisions", records)[0]
    one["text"] = one["text"].upper()  # the length stays, and so the index of the file fits it


def whole_manifest(path: Path) -> None:
    records = read_lines(path)
    other_text(records)
    write_lines(path, records)


def metadata(path: Path) -> None:
    text = path.read_text()
    assert "num_shards: 2" in text
    path.write_text(text.replace("num_shards: 2", "num_shards: 3"))


def recording(name: str, value: object) -> Callable[[Path], None]:
    """Set a field of the manifest of the second recording in the tar of a Shar."""
    return set_data(3, lambda data: json.dumps(json.loads(data) | {name: value}).encode())


def listed(change: Callable[[list[str]], object]) -> Callable[[Path], None]:
    """Change the lines of a list of shards."""

    def apply(path: Path) -> None:
        names = path.read_text().splitlines()
        change(names)
        path.write_text("".join(f"{name}\n" for name in names))

    return apply


def rows(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Path], None]:
    """Change the rows of a Parquet file."""

    def apply(path: Path) -> None:
        table = pq.read_table(path)
        content = table.to_pylist()
        change(content)
        pq.write_table(pa.Table.from_pylist(content, table.schema), path)

    return apply


def swap_audio(content: list[dict[str, Any]]) -> None:
    content[0]["audio"], content[1]["audio"] = content[1]["audio"], content[0]["audio"]


def set_audio(of: Callable[[bytes], bytes | None]) -> Callable[[Path], None]:
    """Give the second row of a Parquet file other audio."""

    def change(content: list[dict[str, Any]]) -> None:
        content[1]["audio"]["bytes"] = of(content[1]["audio"]["bytes"])

    return rows(change)


def flip_audio(path: Path) -> None:
    """Flip a bit in audio, where Parquet has neither a checksum nor compression."""
    data = pq.read_table(path).column("audio")[1].as_py()["bytes"]
    flip(path, path.read_bytes().index(data) + len(data) // 2)


@dataclass(frozen=True)
class Damage:
    """A change of a file of a set.

    Attributes:
        kind: the set.
        name: what is damaged.
        file: the file that is changed.
        change: changes it.
        expected: a regular expression for a problem that names the file or the record.
        hidden: why it cannot be found without the state of the run; empty if it is found.
    """

    kind: str
    name: str
    file: str
    change: Callable[[Path], None]
    expected: str
    hidden: str = ""


DAMAGES = [
    *(
        Damage("tarred", *row)
        for row in (
            ("a bit of audio", TARRED, partial(flip_in_member, 1, False), TARRED),
            ("a bit of a header", TARRED, partial(flip_in_member, 1, True), TARRED),
            ("half of a tar", TARRED, cut_member, TARRED),
            ("the end of a tar", TARRED, cut_end, TARRED),
            ("a missing member", TARRED, remove(2, 1), "is not in the tar"),
            ("swapped audio", TARRED, swap_data(1, 2), "audio_1.tar|u6.flac has"),
            ("a doubled member", TARRED, double(1, 1), "occurs twice"),
            ("a missing tar", TARRED, unlink, TARRED),
            (
                "a missing line",
                MANIFEST,
                partial(lines, change=lambda found: found.pop(2)),
                "has no line in manifest_1",
            ),
            ("another text in one manifest", WHOLE, whole_manifest, WHOLE),
            ("another text", MANIFEST, partial(lines, change=other_text), "manifest_1.json", CONSISTENT),
            ("metadata", "metadata.yaml", metadata, "shards must be numbered 0 to 2"),
        )
    ),
    *(
        Damage("shar", *row)
        for row in (
            ("a bit of audio", TARGET, partial(flip_in_member, 2, False), TARGET),
            ("half of a tar", CONTEXT, cut_member, CONTEXT),
            ("half of the cuts", CUTS, cut_member, CUTS),
            ("a missing recording", TARGET, remove(2, 2), TARGET),
            ("a missing manifest", TARGET, remove(3, 1), TARGET),
            ("swapped recordings", CONTEXT, swap_pairs, CONTEXT),
            ("a doubled recording", TARGET, double(2, 2), TARGET),
            ("a missing tar", CONTEXT, unlink, CONTEXT),
            ("a missing cut", CUTS, partial(cuts, change=lambda found: found.pop()), CUTS.partition("/")[2]),
            ("another text", CUTS, partial(cuts, change=other_text), CUTS, CONSISTENT),
            ("a number of samples", CONTEXT, recording("num_samples", 5), CONTEXT),
        )
    ),
    *(
        Damage("wenet", *row)
        for row in (
            ("a bit of audio", WENET, partial(flip_in_member, 3, False), WENET),
            ("a bit of a header", WENET, partial(flip_in_member, 2, True), WENET),
            ("half of a tar", WENET, cut_member, WENET),
            ("a missing text", WENET, remove(2, 1), WENET),
            ("missing audio", WENET, remove(3, 1), WENET),
            ("swapped audio", WENET, swap_data(1, 3), WENET, NO_DURATION),
            ("a doubled record", WENET, double(2, 2), "the id of another record"),
            ("a missing shard", WENET, unlink, WENET),
            ("a short list", "shards.list", listed(lambda names: names.pop()), WENET),
            ("another text", WENET, set_data(2, lambda _: b"another text"), WENET, CONSISTENT),
            ("a text in Latin-1", WENET, set_data(2, lambda _: b"na\xefve"), WENET),
        )
    ),
    *(
        Damage("parquet", *row)
        for row in (
            ("a bit of audio", PARQUET, flip_audio, PARQUET),
            ("half of a file", PARQUET, cut_member, PARQUET),
            ("a missing row", PARQUET, rows(lambda content: content.pop()), PARQUET, NO_COUNT),
            ("swapped audio", PARQUET, rows(swap_audio), PARQUET),
            ("a doubled row", PARQUET, rows(lambda content: content.append(content[0])), "the id of another record"),
            ("a missing file", "data-000000.parquet", unlink, "data-000000.parquet"),
            ("shorter audio", PARQUET, set_audio(shorter_audio), PARQUET),
            ("no audio", PARQUET, set_audio(lambda _: None), PARQUET),
            ("another text", PARQUET, rows(other_text), PARQUET, CONSISTENT),
            ("a duration", PARQUET, rows(lambda content: content[1].update(duration=9.0)), PARQUET),
        )
    ),
]


def test_the_table_has_44_damages() -> None:
    assert len({(damage.kind, damage.name) for damage in DAMAGES}) == len(DAMAGES) == 44
    assert sum(bool(damage.hidden) for damage in DAMAGES) == 6


@pytest.mark.parametrize("kind", ["tarred", "shar", "wenet", "parquet"])
@pytest.mark.parametrize("state", ["with state", "without state"])
def test_what_is_whole(sets: Path, tmp_path: Path, kind: str, state: str) -> None:
    """Or the next test would prove nothing."""
    done = prepcli("verify", copy_set(sets / kind, tmp_path, records=state == "with state"), "--json")
    assert (done.code, done.json["problems"], done.json["records"]) == (0, [], 10)
    assert done.json["hashes_known"] == (state == "with state")


@pytest.mark.slow
@pytest.mark.parametrize("state", ["with state", "without state"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: f"{damage.kind}: {damage.name}")
def test_damage_is_found(sets: Path, tmp_path: Path, damage: Damage, state: str) -> None:
    out = copy_set(sets / damage.kind, tmp_path, records=state == "with state")
    damage.change(out / damage.file)
    done = prepcli("verify", out, "--json")
    problems = done.json["problems"]
    if damage.hidden and state == "without state":
        assert (done.code, problems) == (0, []), f"it is found now: {damage.hidden} is wrong"
        return
    assert done.code == 1
    assert any(re.search(damage.expected, problem) for problem in problems), problems
