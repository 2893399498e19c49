"""Damaged data sets: `verify` lists what is wrong, `extend-codec-codes` takes what is good; neither falls over."""

import gzip
import io
import json
import shutil
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import MINI_CORPUS, copy_set, read_lines, write_lines
from tests.fuzz.calls import check_call, check_report, scratch
from tests.fuzz.examples import examples
from tests.fuzz.mutations import Draw, json_lines, mutated
from tests.support.running import prepcli
from tests.support.toy_codec import use_toy_codec

VERIFIED = {0, 1, 2}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tarred` and `shar` (with codes and contexts) of eight records, in two shards each."""
    folder = tmp_path_factory.mktemp("sets")
    records = read_lines(MINI_CORPUS / "manifest_with_context.json")[:8]
    manifest = write_lines(folder / "m.json", records)
    common = ("--audio-base-dir", MINI_CORPUS, "--num-workers", 1)
    assert prepcli("manifest-to-tarred", manifest, folder / "tarred", "--num-shards", 2, *common).code == 0
    assert prepcli("manifest-to-shar", manifest, folder / "shar", "--shard-size", 4, *common).code == 0
    with pytest.MonkeyPatch.context() as patch:
        use_toy_codec(patch.setattr)
        done = prepcli("extend-codec-codes", folder / "shar", "--codec-model", "toy", "--devices", "cpu")
    assert done.code == 0, done.err
    return folder


def in_tar(data: bytes, draw: Draw) -> bytes:
    """Change one member of a tar, in its content or its name, and write the tar again."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = [(member, tar.extractfile(member).read()) for member in tar]  # type: ignore[union-attr]
    at = draw(st.integers(0, len(members) - 1))
    member, content = members[at]
    kind = draw(st.integers(0, 5))
    if kind == 0:
        member.name = draw(st.sampled_from(["", "../up.wav", "a/b.wav", "/abs.wav", "x", "é.json", member.name * 8]))
    elif kind == 1:
        member.type = draw(st.sampled_from([tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE]))
        member.linkname = "../../up"
    elif kind == 2:
        del members[at]
    elif kind == 3:
        other = draw(st.integers(0, len(members) - 1))
        members[at], members[other] = members[other], members[at]
    else:
        members[at] = (member, draw(mutated(content)))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for member, content in members:
            member.size = len(content) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def in_lines(data: bytes, draw: Draw) -> bytes:
    """Change one line of JSON: fields of it, or bytes."""
    lines = data.splitlines()
    at = draw(st.integers(0, len(lines) - 1))
    if draw(st.booleans()) and lines[at].startswith(b"{") and lines[at].endswith(b"}"):  # else JSON of several lines
        record = json.loads(lines[at])
        inner = record.get("custom") or record
        lines[at] = draw(json_lines(record, [*record, *inner, "type", "recording", "supervisions"]))
    else:
        lines[at] = draw(mutated(lines[at]))
    return b"\n".join(lines) + b"\n"


def damage(folder: Path, draw: Draw) -> None:
    """Change up to two files of a set, in their raw bytes or in what they hold."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in draw(st.lists(st.sampled_from(files), min_size=1, max_size=2, unique=True)):
        data = path.read_bytes()
        how = draw(st.integers(0, 4))
        if how == 0:
            path.unlink()
        elif how == 1:
            path.write_bytes(draw(mutated(data, head=600)))
        elif path.suffix == ".tar":
            path.write_bytes(in_tar(data, draw) if tarfile.is_tarfile(path) else data[:100])
        elif path.suffix == ".gz":
            path.write_bytes(gzip.compress(in_lines(gzip.decompress(data), draw), mtime=0) if how > 2 else data[:50])
        elif path.suffix == ".json" and b"\n" in data:
            path.write_bytes(in_lines(data, draw))
        else:
            path.write_bytes(draw(mutated(data)))


@examples(40)
@given(st.data(), st.sampled_from(["tarred", "shar"]), st.booleans())
def test_verify(sets: Path, data: st.DataObject, kind: str, with_records: bool) -> None:
    with scratch() as folder:
        out = copy_set(sets / kind, folder, records=with_records)
        damage(out, data.draw)
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        done = check_call(folder, folder / "none", "verify", out, "--num-workers", 1, allowed=VERIFIED)
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
        if done.code == 1:
            problems = [line for line in done.out.splitlines() if "PROBLEM" in line]
            assert problems
            assert all(len(line) < 3000 for line in problems)


@pytest.mark.slow
def test_a_link_in_a_tar_is_not_audio(sets: Path, tmp_path: Path) -> None:
    """Found by fuzzing: what a link points to is not there."""
    shutil.copytree(sets / "shar", tmp_path / "shar", ignore=shutil.ignore_patterns("codes_*"))
    path = tmp_path / "shar/target_audio/recording.000000.tar"
    with tarfile.open(path) as tar:
        members = [(member, tar.extractfile(member).read()) for member in tar]  # type: ignore[union-attr]
    members[0][0].type, members[0][0].linkname, members[0][0].size = tarfile.SYMTYPE, "../../up", 0
    with tarfile.open(path, "w") as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))
    with pytest.MonkeyPatch.context() as patch:
        use_toy_codec(patch.setattr)
        done = prepcli("extend-codec-codes", tmp_path / "shar", "--codec-model", "toy", "--devices", "cpu", "--json")
    assert done.code == 3, done.err
    assert done.json["rejects_by_reason"] == {"unreadable_audio": 1}


@examples(20)
@given(st.data())
def test_codec_codes(sets: Path, data: st.DataObject) -> None:
    with scratch() as folder, pytest.MonkeyPatch.context() as patch:
        use_toy_codec(patch.setattr)
        shutil.copytree(sets / "shar", folder / "shar", ignore=shutil.ignore_patterns("codes_*"))
        damage(folder / "shar", data.draw)
        out = folder / "codes"
        arguments = ["--codec-model", "toy", "--devices", "cpu", "--num-workers", 1, "--output-dir", out]
        done = check_call(folder, out, "extend-codec-codes", folder / "shar", *arguments)
        if done.code != 2:
            check_report(folder / "codes.prepcli/codes_toy")
