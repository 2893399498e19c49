"""Damaged and incomplete data sets: one line if a file cannot be read, a reject for each record that cannot be used."""

import gzip
import io
import json
import os
import shutil
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prepcli.errors import InputChangedError
from prepcli.formats.members import forget, read_member
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.inputs.named import manifests_of
from prepcli.manifest.sources import open_bytes
from prepcli.storage.containers import place_of
from tests.conftest import read_lines
from tests.support.audio_files import write_short_corpus
from tests.support.containers import SOURCES, members_of, samples, write_rows
from tests.support.running import Outcome, prepcli
from tests.support.tars import write_tar

COUNT = 4


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return write_short_corpus(tmp_path / "corpus", COUNT)


def tarred(source: object, out: Path, *options: object) -> Outcome:
    return prepcli("manifest-to-tarred", source, out, "--num-shards", 1, "--max-rejects", 99, "--json", *options)


def rejects(out: Path) -> list[dict[str, Any]]:
    return read_lines(out.with_name(f"{out.name}.prepcli") / "rejects.jsonl")


def check_counts(done: Outcome, records: int, num_rejects: int) -> None:
    report = done.json
    assert (report["records_in"], report["records_out"], report["rejects"]) == (
        records,
        records - num_rejects,
        num_rejects,
    )


def make(kind: str, manifest: Path, tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    return SOURCES[kind](manifest, tmp_path / "source")


def test_a_tar_that_is_cut_off(manifest: Path, tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "a.tar", members_of(manifest))
    tar.write_bytes(tar.read_bytes()[:5000])
    done = prepcli("manifest-to-tarred", tar, tmp_path / "out", "--num-shards", 1)
    assert done.code == 2
    assert "a.tar cannot be read as a tar: it is cut off in the member at byte" in done.error_line


def test_a_compressed_tar_that_is_cut_off(manifest: Path, tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "a.tar.gz", members_of(manifest), "w:gz")
    tar.write_bytes(tar.read_bytes()[:5000])
    done = prepcli("manifest-to-tarred", tar, tmp_path / "out", "--num-shards", 1)
    assert done.code == 2
    assert "a.tar.gz cannot be read as a compressed tar" in done.error_line


@pytest.mark.parametrize("kind", ["parquet", "zip, stored"])
def test_other_files_that_are_cut_off(kind: str, manifest: Path, tmp_path: Path) -> None:
    source = make(kind, manifest, tmp_path)
    path = next(source.glob("*.parquet")) if source.is_dir() else source
    path.write_bytes(path.read_bytes()[:-100])
    done = prepcli("manifest-to-tarred", path, tmp_path / "out", "--num-shards", 1)
    assert done.code == 2
    assert f"{path.name} cannot be read as" in done.error_line


def test_a_line_without_a_member_and_a_member_without_a_line(manifest: Path, tmp_path: Path) -> None:
    source = make("tarred", manifest, tmp_path)
    lines = source / "sharded_manifests" / "manifest_0.json"
    first, *others = read_lines(lines)
    lines.write_text("".join(json.dumps(one) + "\n" for one in [{**first, "audio_filepath": "gone.flac"}, *others]))
    done = tarred(source, tmp_path / "out")
    assert done.code == 0
    check_counts(done, COUNT + 1, 2)
    missing, unnamed = rejects(tmp_path / "out")
    assert (missing["reject_reason"], missing["text"]) == ("missing_audio", first["text"])
    assert missing["reject_detail"] == f"{source}/audio_0.tar has no member gone.flac"
    assert (unnamed["reject_reason"], unnamed["member"]) == ("missing_field", first["audio_filepath"])
    assert unnamed["shard"] == f"{source}/audio_0.tar"


def test_a_set_that_lacks_a_tar_or_a_manifest(manifest: Path, tmp_path: Path) -> None:
    source = make("tarred", manifest, tmp_path)
    (source / "audio_1.tar").rename(tmp_path / "kept.tar")
    lacking = prepcli("manifest-to-wenet", source, tmp_path / "out").error_line
    assert f"{source} lacks audio_1.tar; copy it again, or make it again: cd " in lacking
    shutil.rmtree(f"{source}.prepcli")  # without the state of the run, only the other files tell
    assert f"{source} lacks the tar of shard 1" in prepcli("manifest-to-wenet", source, tmp_path / "out").error_line
    (tmp_path / "kept.tar").rename(source / "audio_1.tar")
    (source / "sharded_manifests" / "manifest_0.json").unlink()
    assert (
        f"{source} lacks the manifest of shard 0" in prepcli("manifest-to-wenet", source, tmp_path / "out").error_line
    )


def test_samples_without_audio_with_the_same_key_and_with_broken_json(manifest: Path, tmp_path: Path) -> None:
    found = list(members_of(manifest))
    audio = found[0][1]
    odd = [
        ("odd.json", b"{}"),
        ("twice.flac", audio),
        ("twice.flac", audio),
        ("broken.json", b"{"),
        ("broken.flac", audio),
    ]
    done = tarred(write_tar(tmp_path / "a.tar", [*found, *odd]), tmp_path / "out")
    check_counts(done, COUNT + 4, 4)
    reasons = [one["reject_reason"] for one in rejects(tmp_path / "out")]
    assert reasons == ["missing_audio", "bad_field", "bad_field", "broken_json"]


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.zip"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_links_repeated_names_and_names_without_a_key_are_counted(name: str, manifest: Path, tmp_path: Path) -> None:
    audio = [data for _, _, data in samples(manifest)]
    members = [("utt0.flac", audio[0]), ("utt1.flac", audio[1]), ("..flac", audio[2]), ("utt0.flac", audio[3])]
    path = tmp_path / name
    if name.endswith("zip"):
        with zipfile.ZipFile(path, "w") as archive:
            for member, data in members:
                archive.writestr(member, data)
    else:
        with tarfile.open(path, "w:gz" if name.endswith("gz") else "w") as tar:
            for member, data in [*members, ("utt2.flac", audio[2])]:
                info = tarfile.TarInfo(member)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
            for member, kind in (("linked.flac", tarfile.LNKTYPE), ("utt3.flac", tarfile.SYMTYPE)):
                info = tarfile.TarInfo(member)
                info.type, info.linkname = kind, "utt1.flac"
                tar.addfile(info)
    done = prepcli("convert-audio", path, tmp_path / "out", "--max-rejects", 99, "--json")
    listed = [(one["member"], one["reject_reason"]) for one in rejects(tmp_path / "out")]
    kept = [record["id"] for record in read_lines(tmp_path / "out/manifest.json")]
    links = [("linked.flac", "missing_audio"), ("utt3.flac", "missing_audio")]
    no_key, repeated = ("..flac", "bad_field"), ("utt0.flac", "bad_field")
    expected = {
        "a.tar": ([repeated, repeated, no_key, *links], ["utt1", "utt2"]),
        "a.tar.gz": ([no_key, repeated, *links], ["utt0", "utt1", "utt2"]),
        "a.zip": ([repeated, repeated, no_key], ["utt1"]),
    }
    assert (listed, kept) == expected[name]
    check_counts(done, len(listed) + len(kept), len(listed))


def test_a_link_in_a_zip_archive_is_a_reject(manifest: Path, tmp_path: Path) -> None:
    audio = samples(manifest)[0][2]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, data in (("a.flac", audio), ("a.txt", b"hello"), ("b.flac", audio), ("c.txt", b"c")):
            archive.writestr(name, data)
        for name in ("b.txt", "c.flac"):
            link = zipfile.ZipInfo(name)
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(link, f"a.{name[2:]}")
    done = tarred(tmp_path / "a.zip", tmp_path / "out")
    check_counts(done, 3, 2)
    details = [one["reject_detail"] for one in rejects(tmp_path / "out")]
    assert [
        f"{name} is a link, not a file" in detail for name, detail in zip(("b.txt", "c.flac"), details, strict=True)
    ] == [True] * 2


def test_a_text_that_is_a_link_is_not_left_out(manifest: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name, data in (("a.flac", samples(manifest)[0][2]), ("a.txt", b"hello")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        info = tarfile.TarInfo("b.txt")
        info.type, info.linkname = tarfile.LNKTYPE, "a.txt"
        tar.addfile(info)
        info = tarfile.TarInfo("b.flac")
        info.size = len(samples(manifest)[1][2])
        tar.addfile(info, io.BytesIO(samples(manifest)[1][2]))
    done = tarred(tmp_path / "a.tar", tmp_path / "out")
    check_counts(done, 2, 1)
    assert "b.txt is a link, not a file" in rejects(tmp_path / "out")[0]["reject_detail"]


def test_two_files_of_audio_in_a_sample_need_a_choice(manifest: Path, tmp_path: Path) -> None:
    members = [(f"{key}.{kind}", data) for key, _, data in samples(manifest) for kind in ("flac", "8k.flac")]
    tar = write_tar(tmp_path / "a.tar", members)
    done = prepcli("manifest-to-tarred", tar, tmp_path / "out", "--num-shards", 1)
    assert done.code == 2
    assert "has several files of audio in a sample" in done.error_line
    assert "--audio-column flac" in done.error_line
    check_counts(tarred(tar, tmp_path / "out", "--audio-column", "8k.flac"), COUNT, 0)


def test_a_row_with_only_a_path_is_not_followed(manifest: Path, tmp_path: Path) -> None:
    data = samples(manifest)[0][2]
    path = manifest.parent / read_lines(manifest)[0]["audio_filepath"]
    audio = pa.array([{"bytes": data, "path": "a.flac"}, {"bytes": None, "path": str(path)}, None])
    write_rows(tmp_path / "a.parquet", audio, {"text": ["one", "two", "three"]})
    done = tarred(tmp_path / "a.parquet", tmp_path / "out")
    check_counts(done, 3, 2)
    second, third = rejects(tmp_path / "out")
    assert second["reject_reason"] == third["reject_reason"] == "unreadable_audio"
    assert f"is not embedded: the row has only the path {path}, which is not followed" in second["reject_detail"]
    assert (second["row"], third["row"], second["shard"]) == (1, 2, f"{tmp_path}/a.parquet")


def test_columns_that_are_not_there_and_columns_that_are_not_audio(manifest: Path, tmp_path: Path) -> None:
    audio = pa.array([{"bytes": samples(manifest)[0][2], "path": None}])
    path = write_rows(tmp_path / "a.parquet", audio, {"text": ["one"], "duration": [1.0]})
    done = prepcli("manifest-to-wenet", path, tmp_path / "out", "--text-column", "words")
    assert (done.code, "has no column words; its columns are text, duration" in done.error_line) == (2, True)
    pq.write_table(pa.table({"text": ["a"], "pickled": [3]}), tmp_path / "b.parquet")
    done = prepcli("manifest-to-wenet", tmp_path / "b.parquet", tmp_path / "out")
    assert (done.code, "has no column with audio" in done.error_line) == (2, True)


def test_several_splits_and_several_sets_are_not_mixed(manifest: Path, tmp_path: Path) -> None:
    audio = pa.array([{"bytes": samples(manifest)[0][2], "path": None}])
    for name in ("en/train-00000-of-00001", "en/test-00000-of-00001", "de/train-00000-of-00002"):
        write_rows(tmp_path / "hub" / f"{name}.parquet", audio, {"text": [name]})
    assert (
        "has several splits, test, train" in prepcli("manifest-to-wenet", tmp_path / "hub", tmp_path / "out").error_line
    )
    done = prepcli("manifest-to-wenet", tmp_path / "hub", tmp_path / "out", "--split", "train")
    assert "has several data sets, de, en: give the folder of one of them" in done.error_line
    done = prepcli("manifest-to-wenet", tmp_path / "hub" / "de", tmp_path / "out", "--split", "train")
    assert "train-00001-of-00002.parquet is missing" in done.error_line
    done = prepcli("manifest-to-wenet", tmp_path / "hub" / "en", tmp_path / "out", "--split", "train", "--json")
    assert done.json["records_out"] == 1


@pytest.mark.slow
def test_a_zip_archive_that_lies_about_its_sizes(manifest: Path, tmp_path: Path) -> None:
    """A bomb is never inflated beyond the size in the directory."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.wav", bytes(50_000_000))
        file.writestr("b.flac", samples(manifest)[0][2])
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = (1000).to_bytes(4, "little")
    path.write_bytes(data)
    done = tarred(path, tmp_path / "out")
    check_counts(done, 2, 1)
    assert rejects(tmp_path / "out")[0]["reject_reason"] == "unreadable_audio"


@pytest.mark.parametrize("kind", ["compressed tar", "zip, deflated"])
def test_what_is_too_large_for_memory_is_not_unpacked(
    kind: str, manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(kind, manifest, tmp_path)
    sizes = sorted(len(data) for _, _, data in samples(manifest))
    monkeypatch.setattr("prepcli.formats.archives._MAX_INFLATED_BYTES", sizes[-1] - 1)
    check_counts(tarred(source, tmp_path / "out"), COUNT, 1)
    [reject] = rejects(tmp_path / "out")
    assert f"would have {sizes[-1]:,} bytes in memory; unpack the archive" in reject["reject_detail"]


@pytest.mark.parametrize("kind", ["compressed tar", "zip, deflated"])
def test_what_can_only_be_read_in_order_is_not_shuffled(kind: str, manifest: Path, tmp_path: Path) -> None:
    source = make(kind, manifest, tmp_path)
    done = prepcli("manifest-to-tarred", source, tmp_path / "out", "--num-shards", 1, "--shuffle")
    assert done.code == 2
    assert f"{source} is compressed and can only be read in its order: leave out --shuffle" in done.error_line


def test_a_field_of_a_shar_alone_has_no_texts(manifest: Path, tmp_path: Path) -> None:
    source = make("shar", manifest, tmp_path)
    done = prepcli("manifest-to-wenet", source / "recording", tmp_path / "out")
    assert done.code == 2
    assert "recording.000000.tar is named as a field of a Lhotse Shar, which has no texts: give" in done.error_line


@pytest.mark.parametrize("left_out", [None, 0])
def test_audio_of_a_shar_belongs_to_its_cut(manifest: Path, tmp_path: Path, left_out: int | None) -> None:
    """Members that are in another order, or one that is missing: lhotse stops there too."""
    source = make("shar", manifest, tmp_path)
    tar = next(source.rglob("*.tar"))
    with tarfile.open(tar) as archive:
        members = [(member, archive.extractfile(member)) for member in archive]
        contents = [(member, file.read()) for member, file in members if file is not None]
    pairs = [contents[number : number + 2] for number in range(0, len(contents), 2)]
    pairs = [pairs[1], pairs[0], *pairs[2:]] if left_out is None else [*pairs[:left_out], *pairs[left_out + 1 :]]
    with tarfile.open(tar, "w") as archive:
        for member, data in (one for pair in pairs for one in pair):
            archive.addfile(member, io.BytesIO(data))
    done = prepcli("manifest-to-tarred", source, tmp_path / "out", "--num-shards", 1)
    assert done.code == 2
    assert "in its place: a member is missing, or their order was changed; copy the shard again" in done.error_line


def test_a_shar_with_audio_of_contexts_only_has_no_audio_of_its_cuts(manifest: Path, tmp_path: Path) -> None:
    source = make("shar", manifest, tmp_path)
    (field,) = (one for one in source.iterdir() if one.name not in ("cuts", "index"))
    field.rename(source / "context_audio")
    shutil.rmtree(f"{source}.prepcli")
    done = prepcli("manifest-to-tarred", source, tmp_path / "out", "--num-shards", 1)
    assert (done.code, "no audio of its cuts, only context_audio" in done.error_line) == (2, True)


def test_lists_for_trainers_do_not_name_members(manifest: Path, tmp_path: Path) -> None:
    source = make("webdataset", manifest, tmp_path)
    for command, flag in (("manifest-to-wenet", "--raw"), ("manifest-to-mels", "--lists-only")):
        done = prepcli(command, source, tmp_path / "out", flag)
        assert done.code == 2
        assert f"lies in a container, and {flag} lists files for a trainer" in done.error_line


def test_a_folder_that_is_not_a_set_of_the_wanted_form(manifest: Path, tmp_path: Path) -> None:
    source = make("webdataset", manifest, tmp_path)
    done = prepcli("manifest-to-wenet", source, tmp_path / "out", "--input-format", "shar")
    assert done.code == 2
    assert f"{source} is not a data set of the form --input-format shar" in done.error_line


@pytest.mark.parametrize("kind", ["tarred", "zip, stored", "compressed tar", "parquet of datasets", "parquet"])
def test_a_container_that_changes_during_the_run_is_noticed(kind: str, manifest: Path, tmp_path: Path) -> None:
    source = make(kind, manifest, tmp_path)
    places = []
    for one in manifests_of(str(source), SetInput()):
        with open_bytes(one) as lines:
            places += [place for line in lines if (place := place_of(json.loads(line)["audio_filepath"]))]
    forget()
    assert [read_member(place)[:4] for place in places] == [b"fLaC"] * COUNT
    path = Path(places[0].path)
    path.write_bytes(path.read_bytes() + bytes(1024))
    with pytest.raises(InputChangedError, match="was changed during the run"):
        read_member(places[0])


def flip(path: Path, data: bytes) -> None:
    """Change a byte in the middle of some bytes of a file, whose size and time stay the same."""
    before, content = path.stat(), bytearray(path.read_bytes())
    place = content.index(data) + len(data) // 2
    content[place] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def change_member(path: Path, beginning: bytes) -> None:
    """Write a zip archive again with another member that begins so, at the same time."""
    before = path.stat()
    with zipfile.ZipFile(path) as file:
        members = [(one, file.read(one)) for one in file.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        for one, data in members:
            file.writestr(one, data[:-1] + b"x" if data.startswith(beginning) else data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def change_row(path: Path) -> None:
    """Write a Parquet file again with other audio in the first row, at the same time."""
    before, table = path.stat(), pq.read_table(path)
    rows = table.column("audio").to_pylist()
    rows[0]["bytes"] = rows[0]["bytes"][:-1] + b"x"
    changed = table.set_column(0, "audio", pa.array(rows)).replace_schema_metadata(table.schema.metadata)
    pq.write_table(changed, path, row_group_size=2, compression="snappy")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("kind", ["tarred", "shar", "webdataset", "zip, stored", "parquet of datasets"])
def test_a_member_with_other_bytes_is_another_input(kind: str, manifest: Path, tmp_path: Path) -> None:
    """Size and time of the container are the same: only the hash of the catalogue shows it."""
    source = make(kind, manifest, tmp_path)
    assert tarred(source, tmp_path / "out").code == 0
    assert tarred(source, tmp_path / "out").code == 0
    files = [path for path in [*source.rglob("*"), source] if path.suffix in (".tar", ".zip", ".parquet")]
    beginning = samples(manifest)[0][2][:600]
    if kind == "zip, stored":
        change_member(files[0], beginning)
    elif kind == "parquet of datasets":
        change_row(files[0])
    else:
        flip(next(path for path in files if beginning in path.read_bytes()), beginning)
    refused = tarred(source, tmp_path / "out")
    assert refused.code == 2, refused.out
    assert "has another content" in refused.err


def test_the_checksum_of_a_member_is_in_no_output(manifest: Path, tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "a.tar", [*members_of(manifest), ("x.json", b"{}"), ("x.flac", b"damaged")])
    for command in ("make-manifest", "manifest-to-tarred", "manifest-to-shar", "manifest-to-wenet", "convert-audio"):
        out = tmp_path / f"{command}.json"
        options = {"manifest-to-tarred": ("--num-shards", 1), "manifest-to-shar": ("--shard-size", 9)}.get(command, ())
        done = prepcli(command, tar, out, "--max-rejects", 9, *options)
        assert done.code == 0, done.err
        for path in [out, *out.rglob("*"), out.with_name(f"{out.name}.prepcli") / "rejects.jsonl"]:
            data = path.read_bytes() if path.is_file() else b""
            assert b"_beginning" not in (gzip.decompress(data) if path.suffix == ".gz" else data), path


def test_bytes_that_differ_from_the_checksum_of_an_archive(manifest: Path, tmp_path: Path) -> None:
    source = make("zip, stored", manifest, tmp_path)
    flip(source, samples(manifest)[1][2][300:])
    done = tarred(source, tmp_path / "out")
    check_counts(done, COUNT, 1)
    (reject,) = rejects(tmp_path / "out")
    assert reject["reject_reason"] == "unreadable_audio"
    assert "differs from its checksum" in reject["reject_detail"]


def test_pages_that_differ_from_their_checksums(manifest: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.parquet"
    audio = pa.array([data for _, _, data in samples(manifest)])
    columns: dict[str, list[Any]] = {"text": ["a"] * COUNT, "duration": [1.0] * COUNT}
    write_rows(source, audio, columns, compression="none", use_dictionary=False, write_page_checksum=True)
    flip(source, samples(manifest)[1][2])
    done = tarred(source, tmp_path / "out")
    check_counts(done, COUNT, COUNT)
    assert all("checksum" in one["reject_detail"] for one in rejects(tmp_path / "out"))


def test_a_stated_duration_is_used_if_it_can_be(manifest: Path, tmp_path: Path) -> None:
    stated = [3.25, 0.0, True, 1e300]
    audio = pa.array([data for _, _, data in samples(manifest)])
    columns: dict[str, list[Any]] = {"text": list("abcd"), "duration": [float(one) for one in stated]}
    rows = write_rows(tmp_path / "a.parquet", audio, columns)
    found = [
        (f"{n}.{suffix}", data)
        for n, (_, _, audio) in enumerate(samples(manifest))
        for suffix, data in (("flac", audio), ("json", json.dumps({"text": "x", "duration": stated[n]}).encode()))
    ]
    tar = write_tar(tmp_path / "a.tar", found)
    measured = [one["duration"] for one in read_lines(manifest)]
    for source, expected in ((rows, [3.25, measured[1], 1.0, measured[3]]), (tar, [3.25, *measured[1:]])):
        (one,) = manifests_of(str(source), SetInput())
        with open_bytes(one) as file:
            assert [json.loads(line)["duration"] for line in file] == pytest.approx(expected, abs=1e-6)


def test_verify_reads_a_parquet_file(manifest: Path, tmp_path: Path) -> None:
    audio = pa.array([{"bytes": data, "path": None} for _, _, data in samples(manifest)])
    done = prepcli("verify", write_rows(tmp_path / "a.parquet", audio, {"text": list("abcd")}))
    assert done.code == 0, done.err
    assert "records  4" in done.out
    empty = pa.array([{"bytes": None, "path": "/etc/passwd"}, *audio.to_pylist()[1:]])
    done = prepcli("verify", write_rows(tmp_path / "b.parquet", empty, {"text": list("abcd")}))
    assert done.code == 1
    assert "b.parquet::0 is not embedded" in done.out + done.err
