"""download ljspeech: what it writes, its subsets and its split."""

from pathlib import Path

from tests.commands.download import miniatures
from tests.commands.download.conftest import PartsOf, Serve
from tests.conftest import read_lines, tree
from tests.support.running import Outcome, prepcli


def ljspeech(data: Path, serve: Serve, checksums: Path, *more: object) -> Outcome:
    arguments = ["--base-url", serve().url, "--checksums", checksums, "--val-size", 3, "--test-size", 5, *more]
    return prepcli("download", "ljspeech", "--data-root", data, *arguments)


def test_ljspeech(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    done = ljspeech(data, serve, checksums)
    assert (done.code, done.err) == (0, "")
    parts = {part: read_lines(data / f"LJSpeech-1.1/{part}_manifest.json") for part in ("train", "val", "test")}
    assert {part: len(records) for part, records in parts.items()} == {"train": 16, "val": 3, "test": 5}
    first = parts["train"][0]
    assert first["text"].endswith(" in 1455,")
    assert first["normalized_text"].endswith(" in fourteen fifty-five,")
    assert first["speaker"] == "| Language:en Dataset:LJSpeech Speaker:LJ |"
    paths = [record["audio_filepath"] for records in parts.values() for record in records]
    assert len(set(paths)) == 24
    for part, records in parts.items():
        lines = (data / f"filelists/ljs_audio_text_{part}_filelist.txt").read_text().splitlines()
        for line, record in zip(lines, records, strict=True):
            path, text = line.split("|")
            assert (data / path).samefile(data / "LJSpeech-1.1" / record["audio_filepath"])
            assert text == record["normalized_text"]


def test_subsets_of_ljspeech(parts_of: PartsOf) -> None:
    """The published lists have subsets of the train part; the miniature is too small for them."""
    names = [f"LJ001-{number:04d}" for number in range(1000)]
    fields = {"normalized_text": "a text"}
    records = [("train_manifest.json", {"audio_filepath": f"wavs/{name}.wav"} | fields) for name in names]
    found = []
    for seed in (0, 1):
        (part,) = parts_of("download_ljspeech", split_seed=seed)
        derive = part.derive
        assert derive is not None
        lists = {name: list(lines) for name, lines in derive(iter(records))}
        subsets = {name: lines for name, lines in lists.items() if "subset" in name}
        assert {name: len(lines) for name, lines in subsets.items()} == {
            f"filelists/ljs_audio_text_train_subset_{size}_filelist.txt": size for size in (300, 625)
        }
        small, large = subsets.values()
        assert large[:300] == small
        assert set(large) < set(lists["filelists/ljs_audio_text_train_filelist.txt"])
        found.append(small)
    assert found[0] != found[1]


def test_ljspeech_split_depends_on_the_seed_alone(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    for name, seed, workers in (("a", 0, 1), ("b", 0, 2), ("c", 1, 2)):
        assert ljspeech(tmp_path / name, serve, checksums, "--split-seed", seed, "--num-workers", workers).code == 0
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert tree(tmp_path / "a") != tree(tmp_path / "c")


def test_ljspeech_with_nothing_to_train_on(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    done = ljspeech(tmp_path / "data", serve, checksums, "--test-size", 21)
    assert done.code == 2
    assert "leave nothing of the 24 utterances to train on" in done.error_line
    assert ljspeech(tmp_path / "data", serve, checksums).code == 0


def test_a_repeated_id_of_ljspeech_is_a_reject(tmp_path: Path) -> None:
    files = miniatures.ljspeech()
    name = "LJSpeech-1.1/metadata.csv"
    lines = files[name].decode().splitlines()
    files[name] = "\n".join([*lines, lines[3].replace("1455", "1456")]).encode() + b"\n"
    tree = miniatures.write_files(files, tmp_path / "copy")
    arguments = ("--data-root", tmp_path / "data", "--extracted", tree, "--val-size", 5, "--test-size", 5)
    done = prepcli("download", "ljspeech", *arguments, "--json")
    assert done.code == 0, done.err
    report = done.json.get("data_sets", [done.json])[0]
    assert (report["records_in"], report["rejects_by_reason"]) == (len(lines) + 1, {"bad_field": 1})
