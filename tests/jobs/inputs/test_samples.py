"""Tars and zip archives from the wild: no recording and no text is lost without a word."""

import gzip
import io
import json
import random
import tarfile
import zipfile
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prepcli.engine.publishing.publish import AccountingError
from prepcli.errors import UsageError
from prepcli.formats.audio_names import is_audio_name
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.inputs import samples as inputs
from prepcli.jobs.inputs.catalogue import FieldNames
from prepcli.jobs.inputs.named import manifests_of
from prepcli.manifest.sources import open_bytes
from tests.conftest import SHORT_CORPUS, read_lines
from tests.support.audio_files import write_audio
from tests.support.containers import samples
from tests.support.running import Outcome, prepcli
from tests.support.tars import write_tar

AUDIO = [data for _, _, data in samples(SHORT_CORPUS / "manifest.json")[:4]]
Members = list[tuple[str, bytes]]


class StoredName(zipfile.ZipInfo):
    """A file in a zip archive that does not say how its name is encoded."""

    encoding = "utf-8"

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:  # noqa: N802 - the name of a method of `ZipInfo`
        return self.filename.encode(self.encoding), self.flag_bits & ~0x800


def write(path: Path, members: Members, encoding: str | None = None) -> Path:
    """Write an archive by the suffix of its name, with names in an encoding that it does not state."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members:
                info = zipfile.ZipInfo(name) if encoding is None else StoredName(name)
                if isinstance(info, StoredName):
                    info.encoding = encoding or ""
                archive.writestr(info, data)
        return path
    mode = "w:gz" if path.suffix == ".gz" else "w"
    with tarfile.open(path, mode, encoding=encoding or "utf-8", format=tarfile.GNU_FORMAT) as tar:  # type: ignore[call-overload]
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def manifest_of(path: Path, *options: object) -> tuple[Outcome, list[dict[str, Any]], list[dict[str, Any]]]:
    """What make-manifest says of a data set, its records, and its rejects."""
    out = path.with_name(f"{path.name}.json")
    done = prepcli("make-manifest", path, out, "--max-rejects", 99, "--overwrite", *options)
    rejects = out.with_name(f"{out.name}.prepcli") / "rejects.jsonl"
    return done, *((read_lines(one) if one.exists() else []) for one in (out, rejects))  # type: ignore[return-value]


def texts(records: list[dict[str, Any]]) -> dict[str, Any]:
    return {one["id"]: one.get("text") for one in records}


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.zip"])
def test_names_with_dots_are_those_of_files(name: str, tmp_path: Path) -> None:
    members = [("spk/anna.take1.wav", AUDIO[0]), ("spk/anna.take1.txt", b"A"), ("spk/anna.take2.wav", AUDIO[1])]
    path = write(tmp_path / name, [*members, ("spk/anna.take2.TXT", b"B"), ("spk.x/LICENSE", b"")])
    _, records, rejects = manifest_of(path)
    assert (texts(records), rejects) == ({"anna.take1": "A", "anna.take2": "B"}, [])


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.zip"])
def test_a_key_of_webdataset_ends_at_the_first_dot(name: str, tmp_path: Path) -> None:
    sample = [("{}.48k.flac", AUDIO[0]), ("{}.json", b'{"text": "A"}'), ("{}.emb.npy", b"")]
    members = [(form.format(n), data) for n in range(3) for form, data in sample]
    _, records, rejects = manifest_of(write(tmp_path / name, members))
    assert (texts(records), rejects) == (dict.fromkeys("012", "A"), [])
    normalized = [("a.wav", AUDIO[0]), ("a.original.txt", b"A!"), ("a.normalized.txt", b"a")]
    assert texts(manifest_of(write(tmp_path / f"n-{name}", normalized))[1]) == {"a": "a"}


def test_what_may_be_samples_or_files_is_refused_and_the_advice_works(tmp_path: Path) -> None:
    rates = [(f"{n}.{rate}.flac", AUDIO[n]) for n in range(3) for rate in ("48k", "16k")]
    path = write(tmp_path / "rates.tar", [*rates, *((f"{n}.json", b'{"text": "A"}') for n in range(3))])
    done, *_ = manifest_of(path)
    assert done.code == 2
    assert "because a key of webdataset ends at the first dot of a name: choose with --audio-column 48k" in done.err
    assert texts(manifest_of(path, "--audio-column", "48k.flac")[1]) == dict.fromkeys("012", "A")
    for name in ("plain.tar", "plain.tar.gz"):
        path = write(tmp_path / name, [("utt.01.flac", AUDIO[0]), ("utt.02.flac", AUDIO[1])])
        done, *_ = manifest_of(path)
        assert (done.code, "--audio-column" in done.err) == (2, False)
        assert "if each is a record, --input-format wenet reads keys up to the last dot" in done.error_line
        assert list(texts(manifest_of(path, "--input-format", "wenet")[1])) == ["utt.01", "utt.02"]
        done = prepcli("convert-audio", path, tmp_path / f"out-{name}", "--input-format", "wenet", "--json")
        assert done.json["records_out"] == 2
    path = write(tmp_path / "plain.zip", [("utt.01.flac", AUDIO[0]), ("utt.02.flac", AUDIO[1])])
    assert list(texts(manifest_of(path)[1])) == ["utt.01", "utt.02"]
    assert manifest_of(path, "--input-format", "webdataset")[0].code == 2
    done, *_ = manifest_of(SHORT_CORPUS / "manifest.json", "--input-format", "wenet")
    assert done.code == 2


def test_files_of_a_sample_that_do_not_follow_each_other(tmp_path: Path) -> None:
    members = [("a.flac", AUDIO[0]), ("b.flac", AUDIO[1]), ("a.txt", b"A"), ("b.txt", b"B"), ("c.flac", AUDIO[2])]
    for name in ("a.tar", "a.zip"):
        _, records, rejects = manifest_of(write(tmp_path / name, members))
        assert (list(texts(records).items()), rejects) == ([("a", "A"), ("b", "B"), ("c", None)], [])
    path = write(tmp_path / "c.tar.gz", members)
    done, *_ = manifest_of(path)
    assert done.code == 2
    assert f"a.txt in {path} does not follow the other files of its sample" in done.error_line
    assert f"unpack it (gunzip {path}), and give the plain tar" in done.error_line
    (tmp_path / "c.tar").write_bytes(gzip.decompress(path.read_bytes()))
    assert texts(manifest_of(tmp_path / "c.tar")[1]) == {"a": "A", "b": "B", "c": None}


@pytest.mark.parametrize("suffix", [".tar", ".zip", ".tar.gz"])
def test_every_file_of_audio_is_a_record_or_a_reject(suffix: str, tmp_path: Path) -> None:
    draw = random.Random(suffix)
    for turn in range(40):
        names = [
            f"{draw.choice(['', 'd/', 'd.x/'])}{draw.choice(['a', 'b', 'a.1', 'b.2', '.', 'é'])}."
            f"{draw.choice(['flac', 'FLAC', '8k.flac', 'txt', 'json', 'spk', 'npy', 'csv'])}"
            for _ in range(draw.randrange(1, 12))
        ]
        unique = list(dict.fromkeys(names))
        members = [(name, AUDIO[0] if is_audio_name(name) else b"{}") for name in unique]
        path = write(tmp_path / f"{turn}{suffix}", members)
        for keys in (None, "wenet", "webdataset"):
            (one,) = manifests_of(str(path), SetInput(input_format=keys))
            try:
                with open_bytes(one) as lines:
                    found = [json.loads(line)["audio_filepath"].partition("::")[2] for line in lines]
            except UsageError:
                continue
            assert sorted(filter(is_audio_name, found)) == sorted(filter(is_audio_name, unique)), (unique, keys)


TABLE = "file_name,transcription,speaker_id\na.flac,one,s1\nsub/b.flac,12,s2\ngone.flac,three,s3\nc.flac,x\n"


@pytest.mark.parametrize("name", ["a.zip", "a.tar"])
def test_a_table_in_an_archive_has_the_texts(name: str, tmp_path: Path) -> None:
    """As of `datasets`: paths are relative to the table; what only one side has is a reject."""
    members = [("data/a.flac", AUDIO[0]), ("data/sub/b.flac", AUDIO[1]), ("data/more.flac", AUDIO[2])]
    path = write(tmp_path / name, [*members, ("data/metadata.csv", TABLE.encode()), ("own.flac", AUDIO[3])])
    done, records, rejects = manifest_of(path)
    assert done.code == 0, done.err
    assert [(one["text"], one["speaker"]) for one in records] == [("one", "s1"), ("12", "s2")]
    reasons = sorted((one["reject_reason"], one["reject_detail"].rpartition("/")[2]) for one in rejects)
    assert reasons == [
        ("bad_field", "metadata.csv:5: the row has 2 columns, the header has 3"),
        ("missing_audio", "metadata.csv names"),
        ("missing_transcript", "metadata.csv names own.flac"),
        ("missing_transcript", "more.flac"),
    ]


def test_tables_of_other_forms(tmp_path: Path) -> None:
    pq.write_table(pa.table({"file_name": ["a.flac"], "text": ["of Parquet"]}), tmp_path / "m.parquet")
    rows: list[dict[str, Any]] = [{"text": "of lines"}, {"text": "s", "offset": 0.02, "duration": 0.1}]
    lines = "".join(json.dumps({"file_name": "b.flac"} | row) + "\n" for row in rows).encode()
    members = [
        ("x/metadata.parquet", (tmp_path / "m.parquet").read_bytes()),
        ("x/a.flac", AUDIO[0]),
        ("y/metadata.jsonl", lines),
        ("y/b.flac", AUDIO[1]),
    ]
    _, records, rejects = manifest_of(write(tmp_path / "a.zip", members))
    assert [one["text"] for one in records] == ["of Parquet", "of lines", "s"]
    assert (records[2]["offset"], records[2]["duration"], rejects) == (0.02, pytest.approx(0.1), [])


def test_a_table_that_cannot_be_used(tmp_path: Path) -> None:
    refused = {
        "two.zip": (
            [("metadata.csv", TABLE.encode()), ("metadata.jsonl", b"{}")],
            "has both metadata.csv and metadata",
        ),
        "old.zip": ([("metadata.csv", b"LJ1|text|text\n")], "has no column with the names of audio files"),
        "a.tar.gz": ([("metadata.csv", TABLE.encode())], "has a table of its texts, metadata.csv, and compressed tars"),
        "quote.zip": ([("metadata.csv", b'file_name,text\na.flac,"x\n')], "cannot be read as a table"),
        "latin.zip": ([("metadata.csv", b"file_name,text\na.flac,\xe9\n")], "metadata.csv in "),
    }
    for name, (members, message) in refused.items():
        done, *_ = manifest_of(write(tmp_path / name, [("a.flac", AUDIO[0]), *members]))
        assert (done.code, message in done.error_line) == (2, True), done.err


@pytest.mark.parametrize(
    ("name", "encoding"), [("a.zip", "gb18030"), ("b.zip", "cp932"), ("c.tar", "cp932"), ("d.tar.gz", "gb18030")]
)
def test_names_in_an_old_encoding_are_found_again(name: str, encoding: str, tmp_path: Path) -> None:
    """The manifest has the real names; the command that reads it needs no option."""
    path = write(tmp_path / name, [("表示.flac", AUDIO[0]), ("表示.txt", b"text")], encoding)
    _, records, _ = manifest_of(path, "--name-encoding", encoding)
    assert texts(records) == {"表示": "text"}
    assert prepcli("convert-audio", tmp_path / f"{name}.json", tmp_path / "out").code == 0
    assert (tmp_path / "out/表示.flac").read_bytes() == AUDIO[0]
    done, records, rejects = manifest_of(path)
    if path.suffix == ".zip":
        assert "they are read as cp437; if that is wrong, name their encoding with --name-encoding" in done.err
        assert prepcli("convert-audio", tmp_path / f"{name}.json", tmp_path / "as_cp437").code == 0
    else:
        assert [one["reject_reason"] for one in rejects] == ["not_utf8"]
        assert "name the encoding of the names with --name-encoding" in rejects[0]["reject_detail"]
    wrong = "cp932" if encoding == "gb18030" else "euc_jp"
    done, *_ = manifest_of(path, "--name-encoding", wrong)
    assert done.code in (0, 2)


def test_names_in_utf8_that_do_not_say_so(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zip", [("wavs/grüße.flac", AUDIO[0]), ("wavs/grüße.txt", b"text")], "utf-8")
    done, records, _ = manifest_of(path)
    assert (texts(records), "cp437" in done.err) == ({"grüße": "text"}, False)
    assert prepcli("convert-audio", path, tmp_path / "out").code == 0
    assert (tmp_path / "out/wavs/grüße.flac").exists()


def test_a_manifest_with_names_of_an_earlier_version_is_still_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zip", [("grüße.flac", AUDIO[0])], "utf-8")
    _, records, _ = manifest_of(path)
    name = "grüße.flac".encode().decode("cp437")
    (tmp_path / "m.json").write_text(json.dumps(records[0] | {"audio_filepath": f"{path}::{name}"}) + "\n")
    assert prepcli("convert-audio", tmp_path / "m.json", tmp_path / "out", "--json").json["records_out"] == 1


def test_joined_archives(tmp_path: Path) -> None:
    parts = [write_tar(tmp_path / f"{n}.tar", {f"{n}.flac": AUDIO[n], f"{n}.txt": b"text"}) for n in range(3)]
    whole = b"".join(part.read_bytes() for part in parts)
    packed = b"".join(gzip.compress(part.read_bytes()) for part in parts)
    for name, data in (("all.tar", whole), ("members.tar.gz", packed), ("all.tar.gz", gzip.compress(whole))):
        (tmp_path / name).write_bytes(data)
        assert texts(manifest_of(tmp_path / name)[1]) == dict.fromkeys("012", "text")
        assert prepcli("convert-audio", tmp_path / name, tmp_path / f"out-{name}", "--json").json["records_out"] == 3
    junk = tmp_path / "junk.tar"
    junk.write_bytes(parts[0].read_bytes() + b"junk" * 500)
    done, *_ = manifest_of(junk)
    assert "bytes that are not a tar follow its end mark (truncate -s " in done.error_line
    kept = int(done.error_line.partition("truncate -s ")[2].partition(" ")[0])
    junk.write_bytes(junk.read_bytes()[:kept])
    assert texts(manifest_of(junk)[1]) == {"0": "text"}
    (tmp_path / "junk.tar.gz").write_bytes(gzip.compress(parts[0].read_bytes() + b"junk" * 500))
    assert "bytes that are not a tar follow its end mark" in manifest_of(tmp_path / "junk.tar.gz")[0].error_line


def test_the_speaker_of_wespeaker(tmp_path: Path) -> None:
    for options in ((), ("--input-format", "wenet")):
        path = write(tmp_path / "a.tar", [("k1.spk", b"s7\n"), ("k1.flac", AUDIO[0])])
        assert manifest_of(path, *options)[1][0]["speaker"] == "s7"


def test_lists_are_recognized_by_their_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lists/shards").mkdir(parents=True)
    write(tmp_path / "lists/shards/x.tar", [("a.1.txt", b"A"), ("a.1.flac", AUDIO[0]), ("d.flac", AUDIO[1])])
    (tmp_path / "lists/train.list").write_bytes(b"shards/x.tar\r\n\n")
    (tmp_path / "lists/b.flac").write_bytes(AUDIO[1])
    (tmp_path / "lists/dev").write_text(
        '{"key": "b", "wav": "b.flac", "txt": "B"}\n{"key": "c", "wav": "b.flac", "spk": "s"}'
    )
    for name, expected in (("train.list", {"a.1": "A", "d": None}), ("dev", {"b": "B", "c": None})):
        path = tmp_path / "lists" / name
        assert texts(manifest_of(path)[1]) == expected
        for command in (("verify",), ("inspect",), ("estimate-bins", "-b", 2)):
            assert prepcli(command[0], path, *command[1:]).code == 0
        done = prepcli("convert-audio", path, tmp_path / f"out-{name}", "--json")
        assert done.json["records_out"] == len(expected)
    monkeypatch.chdir(tmp_path)  # WeNet's paths start from the folder of training
    (tmp_path / "other").mkdir()
    (tmp_path / "other/train.list").write_text("lists/shards/x.tar\n")
    assert texts(manifest_of(tmp_path / "other/train.list")[1]) == {"a.1": "A", "d": None}


def test_verify_finds_damage_within_a_zip_archive(tmp_path: Path) -> None:
    write_audio(tmp_path / "long.wav", 5)
    path = write(tmp_path / "a.zip", [("a.flac", AUDIO[0]), ("b.wav", (tmp_path / "long.wav").read_bytes())])
    assert prepcli("verify", path).code == 0
    data = bytearray(path.read_bytes())
    data[data.index(b"b.wav") + 60_000] ^= 1
    path.write_bytes(data)
    done = prepcli("verify", path)
    assert (done.code, "a.zip: b.wav: Bad CRC-32" in done.out) == (1, True), done.out
    done = prepcli("convert-audio", path, tmp_path / "out", "--json", "--max-rejects", 9)
    assert done.json["rejects"] == 1


def test_segments_and_names_of_a_tarred_set(tmp_path: Path) -> None:
    """NeMo's rule: `X-sub1.FLAC` is a segment of the member `X.FLAC`."""
    write_audio(tmp_path / "long.flac", 3)
    write_tar(tmp_path / "audio_0.tar", {"X.FLAC": (tmp_path / "long.flac").read_bytes(), "y.flac": AUDIO[1]})
    lines = [
        {"audio_filepath": "X.FLAC", "offset": 0.0, "duration": 1.5, "text": "a", "shard_id": 0},
        {"audio_filepath": "X-sub1.FLAC", "offset": 1.5, "duration": 1.5, "text": "b", "shard_id": 0},
        {"audio_filepath": "y.flac", "text": "c", "shard_id": 0},
    ]
    manifest = tmp_path / "tarred_audio_manifest.json"
    manifest.write_text("".join(json.dumps(one) + "\n" for one in lines))
    for number, source in enumerate((tmp_path, manifest)):
        out = tmp_path / f"out{number}"
        done = prepcli("manifest-to-tarred", source, out, "--num-shards", 1, "--json")
        assert (done.code, done.json["records_out"], done.json["rejects"]) == (0, 3, 0), done.err
        assert [one["text"] for one in read_lines(out / "tarred_audio_manifest.json")] == ["a", "b", "c"]


def test_audio_that_a_rule_would_lose_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of audio are counted before they are grouped: a fault of the grouping cannot lose any in silence."""
    path = write(tmp_path / "a.zip", [("a.wav", AUDIO[0]), ("b.wav", AUDIO[1])])
    whole = inputs._samples
    monkeypatch.setattr(inputs, "_samples", lambda *words: islice(whole(*words), 1))
    with pytest.raises(AccountingError, match="has 2 files of audio, but 1 were read"):
        list(inputs.sample_lines(str(path), None, FieldNames()))
