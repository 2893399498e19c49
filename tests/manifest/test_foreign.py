"""Files that were never meant as JSON lines: refused with what they are, and nothing is left behind."""

import gzip
import json
from pathlib import Path

import pytest

from prepcli.manifest.kinds import HEAD_BYTES
from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.running import prepcli

RECORDS = read_lines(MINI_CORPUS / "manifest.json")[:3]
WAV = b"RIFF" + bytes(4) + b"WAVEfmt " + bytes(2000)
IMAGE = b"\x89PNG\r\n\x1a\n" + bytes(byte * byte % 251 for byte in range(5000))
COMMANDS = (
    ("manifest-to-tarred", "--num-shards", "1"),
    ("manifest-to-shar",),
    ("extend-context-audio", "--speaker-model", "resemblyzer"),
)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.wav", WAV, "(a WAV file); `prepcli make-manifest FOLDER OUT.json`"),
        (
            "m.csv",
            b"path,text\na.wav,hello\n",
            "(a CSV with header 'path,text'); `prepcli make-manifest {} OUT.json` reads",
        ),
        ("m.tsv", b"path\ttext\na.wav\thello\n", r"(a TSV with header 'path\ttext')"),
        ("m.csv", b"a.wav,hello\n", "(a CSV such as 'a.wav,hello', without a header); name its columns"),
        (
            "filelist.txt",
            b"a/b1.wav|hello\n",
            "(a table with | such as 'a/b1.wav|hello'); `prepcli make-manifest {} OUT.json`",
        ),
        ("paths.txt", b"a.wav\nb.wav\n", "(a list of paths such as 'a.wav'); `prepcli make-manifest {} OUT.json`"),
        (
            "m.json",
            json.dumps(RECORDS).encode(),
            "(a JSON list of NeMo records); write one object per line: jq -c '.[]' {}",
        ),
        ("m.json", json.dumps(RECORDS, indent=1).encode(), "(a JSON list of NeMo records)"),
        ("train.yaml", b"train_ds:\n  shuffle: true\n", "(a YAML file); give the manifests or data sets that it names"),
        (
            "m.json",
            b"[\n" + b",\n".join(json.dumps(one).encode() for one in RECORDS) + b"\n]\n",
            "(a JSON list of NeMo records)",
        ),
        ("long.json", json.dumps(RECORDS * 400, indent=1).encode(), "(a JSON list of NeMo records)"),
        ("m.json", json.dumps(RECORDS[0], indent=1).encode(), "(a JSON object over several lines)"),
        (
            "long.json",
            json.dumps({"all": RECORDS * 400}, indent=1).encode(),
            '(a JSON object that holds a list, "all", of',
        ),
        ("long.json", json.dumps({"a": {"b": RECORDS * 400}}, indent=1).encode(), "(a JSON object over several lines)"),
        ("m.json", gzip.compress(b"{}\n", mtime=0), "(compressed with gzip); give it a name that ends with .gz"),
        ("m.json.gz", gzip.compress(b"path,text\na.wav,hello\n", mtime=0), "(a CSV with header 'path,text')"),
        (
            "cuts.jsonl",
            b'{"id": "a", "type": "MonoCut", "start": 0, "duration": 1}\n' * 2,
            "(lhotse cuts); make a manifest of",
        ),
        ("m.bin", b"MZ\0\0" * 99, "(a binary file)"),
        ("m.bin", IMAGE, "(a binary file)"),
        (
            "talk.srt",
            b"1\n00:00:01,000 --> 00:00:02,500\nhello\n",
            "(times of recordings, srt); give it with the audio: prepcli segment AUDIO OUT.json --by times --times {}",
        ),
        ("m.txt", b"hello one\nhello two\n", "(lines such as 'hello one'); if they are transcripts, `prepcli"),
    ],
)
def test_other_kinds_of_files(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for command, *options in COMMANDS[: 3 if name == "m.csv" else 1]:
        done = prepcli(command, path, tmp_path / "out", *options)
        assert done.code == 2
        assert f"{path} is not a manifest of JSON lines" in done.error_line
        assert words.format(path) in done.error_line
        assert [one.name for one in tmp_path.iterdir()] == [name]
    if not name.endswith((".wav", ".bin", ".yaml", ".jsonl")):  # the last are cuts, of which bins can be made
        assert "is not a manifest of JSON lines" in prepcli("estimate-bins", path).error_line


def test_images_and_records_are_refused_as_texts(tmp_path: Path) -> None:
    """An image begins with a line without zeros; records would become texts in silence."""
    image, manifest = tmp_path / "x.png", write_lines(tmp_path / "m.json", RECORDS)
    image.write_bytes(IMAGE)
    calls = [("texts-to-shards", image, tmp_path / "out"), ("prepare-texts", image, tmp_path / "out.json")]
    for call in calls:
        done = prepcli(*call, "--num-shards", 1)
        assert (done.code, done.error_line.partition("(")[0]) == (2, f"prepcli: {image} is not lines of text ")
    done = prepcli("texts-to-shards", manifest, tmp_path / "out", "--num-shards", 1)
    assert (done.code, f"(NeMo records); write their texts: jq -r .text {manifest} >" in done.error_line) == (2, True)
    assert sorted(tmp_path.iterdir()) == [manifest, image]


def test_damaged_lines_do_not_make_a_binary_file(tmp_path: Path) -> None:
    """After a loss of power, files may have zeros in them; other encodings than UTF-8 have none."""
    path = write_lines(tmp_path / "m.json", RECORDS)
    path.write_bytes(path.read_bytes() + b"\0\xff" * 4000)
    options = ["--num-shards", 1, "--dry-run", "--json", "--max-rejects", 9]
    assert prepcli("manifest-to-tarred", path, tmp_path / "out", *options).json["records_planned"] == 3
    latin = tmp_path / "t.txt"
    latin.write_bytes("Grüße\n".encode("latin-1") * 9)
    assert prepcli("texts-to-shards", latin, tmp_path / "out", "--dry-run").code == 0


@pytest.mark.parametrize("command", ["fix-durations", "prepare-texts"])
def test_cuts_for_commands_that_read_line_by_line(command: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "cuts.jsonl", [{"id": "a", "type": "MonoCut", "start": 0, "duration": 1}] * 5)
    done = prepcli(command, path, tmp_path / "out.json")
    assert (done.code, "(lhotse cuts); make a manifest of their audio: prepcli make-manifest" in done.error_line) == (
        2,
        True,
    )
    assert [one.name for one in tmp_path.iterdir()] == ["cuts.jsonl"]


def test_a_folder(tmp_path: Path) -> None:
    done = prepcli("manifest-to-tarred", MINI_CORPUS, tmp_path / "out", "--num-shards", 1)
    assert done.code == 2
    assert f"{MINI_CORPUS} is not a data set" in done.error_line
    assert f"prepcli make-manifest {MINI_CORPUS} OUT.json" in done.error_line
    assert list(tmp_path.iterdir()) == []


def test_a_kaldi_directory(tmp_path: Path) -> None:
    folder = tmp_path / "kaldi"
    folder.mkdir()
    (folder / "wav.scp").write_text(f"a {MINI_CORPUS}/s01/s01_u1.flac\n")
    done = prepcli("manifest-to-tarred", folder, tmp_path / "out", "--num-shards", 1)
    assert done.code == 2
    assert done.error_line.endswith(
        f"it is a Kaldi directory: make a manifest of it first, prepcli make-manifest {folder} OUT.json"
    )


def test_a_folder_of_lhotse(tmp_path: Path) -> None:
    for name in ("a_recordings_dev.jsonl.gz", "a_supervisions_dev.jsonl.gz"):
        (tmp_path / name).write_bytes(b"")
    done = prepcli("manifest-to-tarred", tmp_path, tmp_path / "out", "--num-shards", 1)
    assert done.code == 2
    assert done.error_line.endswith(
        f"it has manifests of lhotse: make one of NeMo first, prepcli make-manifest {tmp_path} OUT.json"
    )


def test_a_tarred_set_for_a_command_that_takes_manifests(tmp_path: Path) -> None:
    made = tmp_path / "tarred"
    prepcli("manifest-to-tarred", MINI_CORPUS / "manifest.json", made, "--num-shards", 1)
    done = prepcli("filter", made, tmp_path / "kept.json", "--keep", "duration > 2")
    advice = f"make a manifest that names it there: prepcli make-manifest {made} OUT.json"
    assert (done.code, done.error_line) == (2, f"prepcli: the audio of {made} is in tars: {advice}")
    shard = prepcli("filter", made / "sharded_manifests", tmp_path / "kept.json", "--keep", "duration > 2")
    assert "to write a data set, give the folder itself" in shard.error_line


@pytest.mark.parametrize(
    "first", [b"[]\n", b"a,b,c\n", b'"text"\n', b"{\n", b"\n\n", b"\xef\xbb\xbf", b"[1, 2]\n[3]\n", b"#!a/b|c\n"]
)
def test_broken_lines_among_records_are_rejects(first: bytes, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "m.json", RECORDS)
    path.write_bytes(first + path.read_bytes())
    # Of three records, whose audio does not exist, as many rejects are allowed.
    options = ["--num-shards", 1, "--dry-run", "--json", "--max-rejects", 9]
    done = prepcli("manifest-to-tarred", path, tmp_path / "out", *options)
    assert (done.code, done.json["records_planned"]) == (0, 3)


@pytest.mark.parametrize(
    "content", [b'{"audio_filepath": "a.wav", \n', b"{}", b"{" * HEAD_BYTES + b"\n", b"x" * 70_000]
)
def test_broken_lines_alone_are_rejects_too(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_bytes(content)
    done = prepcli("manifest-to-tarred", tmp_path / "m.json", tmp_path / "out", "--num-shards", 1)
    assert "is not a manifest of JSON lines" not in done.err
    assert done.code == 3
