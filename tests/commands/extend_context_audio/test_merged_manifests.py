"""Records of manifests in several folders in one file: each still names its own audio."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, Lines, read_lines, write_lines
from tests.recipes.test_prepare_manifest import SPEAKER, prepare
from tests.support.audio_files import write_audio
from tests.support.running import prepcli


@pytest.fixture
def two(tmp_path: Path) -> str:
    """Two folders with files of the same names; the text of a record tells where its file is."""
    for seed, folder in enumerate(("A", "B")):
        records = []
        for number in range(2):
            path = tmp_path / folder / f"wav/{number}.wav"
            write_audio(path, 1.0, 16000, seed=10 * seed + number)
            record = {"audio_filepath": f"./wav/{number}.wav", "duration": 1.0, "text": str(path), "speaker": SPEAKER}
            records.append(record | {"context_audio_filepath": f"wav/{1 - number}.wav", "context_audio_duration": 1.0})
        records.append(records[0] | {"audio_filepath": "wav/missing.wav"})
        write_lines(tmp_path / folder / "c.json", records)
    return f"{tmp_path}/A/c.json,{tmp_path}/B/c.json"


def test_prepare_manifest(two: str, tmp_path: Path) -> None:
    done = prepare(two, tmp_path / "out", "--max-rejects", 2, "--json")
    assert done.code == 0, done.err
    lines = read_lines(tmp_path / "out/manifest.json")
    assert len(lines) == 4
    for line in lines:
        assert line["audio_filepath"] == line["text"]
        other = Path(line["text"]).with_name(f"{1 - int(Path(line['text']).stem)}.wav")
        assert line["context_audio_filepath"] == str(other)
    assert "absolute" in done.json["details"]["audio_base_dir"]
    # The next step reads it from anywhere.
    assert prepcli("manifest-to-shar", tmp_path / "out/manifest.json", tmp_path / "shar").code == 0


@pytest.mark.parametrize("command", ["manifest-to-tarred", "manifest-to-shar", "prepare"])
def test_rejects_are_a_manifest_of_their_own(two: str, tmp_path: Path, command: str) -> None:
    arguments = [two, tmp_path / "out", "--max-rejects", 2]
    if command == "prepare":
        assert prepare(*arguments).code == 0
    else:
        options = ["--num-shards", 1] if command == "manifest-to-tarred" else []
        assert prepcli(command, *arguments, *options).code == 0
    rejects = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert [line["audio_filepath"] for line in rejects] == [str(tmp_path / f"{x}/wav/missing.wav") for x in "AB"]
    assert [line["context_audio_filepath"] for line in rejects] == [str(tmp_path / f"{x}/wav/1.wav") for x in "AB"]


def test_of_one_folder_nothing_changes(two: str, tmp_path: Path) -> None:
    first = two.split(",")[0]
    again = shutil.copy(first, tmp_path / "A/again.json")
    done = prepare(f"{first},{again}", tmp_path / "out", "--max-rejects", 2, "--json")
    own = read_lines(Path(first))[:2]
    assert read_lines(tmp_path / "out/manifest.json") == own * 2
    assert done.json["details"]["audio_base_dir"] == str(tmp_path / "A")
    # Below the folder that the paths start from, no option is needed.
    done = prepare(first, tmp_path / "A", "--max-rejects", 2, "--json")
    assert "audio_base_dir" not in done.json["details"]


@pytest.fixture
def corpora(tmp_path: Path) -> str:
    """The mini corpus in two folders, with other audio under each name in the second."""
    records = read_lines(MINI_CORPUS / "manifest.json")[:12]
    for number, folder in enumerate(("A", "B")):
        for place, record in enumerate(records):
            source = records[(place + number) % len(records)]
            (tmp_path / folder / record["audio_filepath"]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(MINI_CORPUS / source["audio_filepath"], tmp_path / folder / record["audio_filepath"])
        lines = [
            records[(place + number) % len(records)] | {"audio_filepath": record["audio_filepath"]}
            for place, record in enumerate(records)
        ]
        write_lines(tmp_path / folder / "c.json", [line | {"where": f"{tmp_path}/{folder}"} for line in lines])
    return f"{tmp_path}/A/c.json,{tmp_path}/B/c.json"


@pytest.mark.usefixtures("toy_voice", "one_thread")
def test_extend_context_audio(corpora: str, tmp_path: Path) -> None:
    options = ["--speaker-model", "toy", "--context-min-duration", 1, "--save-embeddings", "--json"]
    done = prepcli("extend-context-audio", corpora, tmp_path / "out", *options, "--max-rejects", 100)
    assert done.code == 0, done.err
    assert "absolute" in done.json["details"]["audio_base_dir"]
    (merged,) = (tmp_path / "out").glob("*.json")
    by_path: dict[str, Lines] = {}
    for folder in "AB":
        for record in read_lines(tmp_path / folder / "c.json"):
            by_path.setdefault(f"{record['where']}/{record['audio_filepath']}", []).append(record)
    lines = read_lines(merged)
    assert {line["where"][-1] for line in lines} == {"A", "B"}
    for line in lines:
        assert any(line["text"] == record["text"] for record in by_path[line["audio_filepath"]])
        assert line["audio_filepath"].startswith(line["where"] + "/")
        others = by_path[line["context_audio_filepath"]]
        assert any(line["context_audio_text"] == record["text"] for record in others)
    for index in (tmp_path / "out/embeddings").glob("*.jsonl"):
        assert all(line["audio_filepath"] in by_path for line in read_lines(index))
    # One folder: the paths stay as they are, and the summary says where they start from.
    arguments = [corpora.split(",")[0], tmp_path / "one", *options, "--max-rejects", 100]
    assert prepcli("extend-context-audio", *arguments).json["details"]["audio_base_dir"] == str(tmp_path / "A")
    (single,) = (tmp_path / "one").glob("*.json")
    assert not any(Path(line["audio_filepath"]).is_absolute() for line in read_lines(single))
