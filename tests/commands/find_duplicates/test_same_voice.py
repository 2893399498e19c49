"""find-duplicates --speaker-model: the same voice under two names, within an input and between two."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.commands.find_duplicates import same_voice
from prepcli.commands.find_duplicates.same_voice import similar_pairs
from prepcli.jobs import embedding
from tests.conftest import MINI_CORPUS, Lines, read_lines, write_lines
from tests.support.running import Outcome, prepcli
from tests.support.tools import need_package

pytestmark = pytest.mark.usefixtures("toy_voice", "one_thread")

TWO_NAMES = ("s02", "s07")


def corpus() -> Lines:
    records = read_lines(MINI_CORPUS / "manifest.json")
    for record in records:
        record["audio_filepath"] = str(MINI_CORPUS / record["audio_filepath"])
        record["speaker"] = record["speaker"].split("Speaker:")[1][:3]
    return records


def find(*arguments: object, model: str = "toy", least: float = 0.95) -> Outcome:
    more = ("--by", "speaker", "--speaker-model", model, "--min-voice-similarity", least)
    return prepcli("find-duplicates", *arguments, *more)


def groups(out: Path) -> list[set[str]]:
    found: dict[int, set[str]] = {}
    for line in read_lines(out):
        assert line["duplicate_by"] == "speaker"
        found.setdefault(line["duplicate_group"], set()).add(line["speaker"])
    return list(found.values())


@pytest.fixture(scope="module")
def made_tones(tmp_path_factory: pytest.TempPathFactory) -> Lines:
    """Utterances of five voices, each a fixed mixture of sixteen tones; voice 3 has the names 3 and three."""
    folder, lines = tmp_path_factory.mktemp("tones"), []
    times = np.arange(32000) / 16000
    frequencies = np.linspace(100, 4000, 16)[:, None]
    for turn in range(6):
        for voice in range(5):
            detuned = frequencies + np.random.default_rng(10 * turn + voice).uniform(3, 9, (16, 1))
            loudness = np.random.default_rng(voice).uniform(0.1, 1, (16, 1)) ** 3
            path = folder / f"{voice}_{turn}.wav"
            soundfile.write(path, (loudness * np.cos(2 * np.pi * detuned * times)).sum(axis=0) / 20, 16000)
            name = "three" if voice == 3 and turn % 2 else str(voice)
            lines.append({"audio_filepath": str(path), "duration": 2.0, "text": "", "speaker": name})
    return lines


@pytest.fixture
def tones(made_tones: Lines) -> Lines:
    return [dict(line) for line in made_tones]


@pytest.mark.slow
def test_two_names_of_a_voice(tmp_path: Path, tones: Lines) -> None:
    tones.insert(0, {"audio_filepath": tones[0]["audio_filepath"], "duration": 1.0, "text": "no speaker"})
    manifest = write_lines(tmp_path / "m.json", tones)
    done = find(manifest, tmp_path / "out.jsonl", "--json")
    assert done.code == 0, done.err
    assert groups(tmp_path / "out.jsonl") == [{"3", "three"}]
    assert len(read_lines(tmp_path / "out.jsonl")) == 6
    assert (done.json["records_out"], done.json["rejects"]) == (31, 0)
    (pair,) = done.json["details"]["same_voice"]
    assert pair["speakers"] == ["3", "three"]
    assert pair["similarity"] > 0.95
    again = find(manifest, tmp_path / "out.jsonl")
    assert "nothing to do" in again.out
    assert "same voice (" in again.out
    assert again.out.count("below the minimum (") == 14  # all other pairs of six names
    none = find(manifest, tmp_path / "none.jsonl", least=1.0)
    assert (none.code, groups(tmp_path / "none.jsonl")) == (0, [])
    assert f"below the minimum ({pair['similarity']:.3f}): 3, three" in none.out


def test_between_inputs(tmp_path: Path, tones: Lines) -> None:
    """The same name in both is a leak, and the same voice is; two names in one input are not."""
    test = [line for line in tones if line["speaker"] in ("1", "3", "4")]
    train = [line for line in tones if line["speaker"] in ("0", "three", "2")]
    train += [dict(line, speaker="1") for line in tones if line["speaker"] == "2"]
    train += [dict(line, speaker="5") for line in tones if line["speaker"] == "0"]
    inputs = [write_lines(tmp_path / "test.json", test), write_lines(tmp_path / "train.json", train)]
    done = find(*inputs, tmp_path / "out.jsonl", "--between")
    assert done.code == 1, done.err
    assert groups(tmp_path / "out.jsonl") == [{"1"}, {"3", "three"}]
    whole = find(*inputs, tmp_path / "all.jsonl")
    assert whole.code == 0, whole.err
    assert groups(tmp_path / "all.jsonl") == [{"1"}, {"3", "three"}, {"0", "5"}]


def test_few_utterances_are_decoded(tmp_path: Path, tones: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long ones first, wherever they stand; audio that is not drawn need not exist, and drawn audio is rejected."""
    monkeypatch.setattr(same_voice, "MAX_UTTERANCES", 2)
    for number, line in enumerate(tones[:10]):
        line.update(duration=1.9, audio_filepath=f"missing_{number}.wav")
    manifest = write_lines(tmp_path / "m.json", tones)
    done = find(manifest, tmp_path / "out.jsonl", "--json")
    assert done.code == 0, done.err
    assert (done.json["records_out"], done.json["rejects"]) == (30, 0)
    assert groups(tmp_path / "out.jsonl") == [{"3", "three"}]
    monkeypatch.setattr(same_voice, "MAX_UTTERANCES", 20)
    lines = [*(dict(tones[-1], audio_filepath="gone.wav", speaker=name) for name in ("9", "3")), *tones[10:]]
    gone = write_lines(tmp_path / "gone.json", lines)
    done = find(gone, tmp_path / "gone.jsonl", "--max-rejects", 2, "--json")
    assert (done.code, done.json["rejects_by_reason"]) == (0, {"missing_audio": 2}), done.err
    assert groups(tmp_path / "gone.jsonl") == [{"3", "three"}]
    assert done.json["details"]["without_voice"] == 1


@pytest.mark.slow
def test_ranks_give_the_same_bytes(tmp_path: Path, tones: Lines) -> None:
    manifest = write_lines(tmp_path / "m.json", tones)
    assert find(manifest, tmp_path / "one.jsonl").code == 0
    for rank in (1, 0, 2):
        assert find(manifest, tmp_path / "three.jsonl", "--rank", rank, "--world-size", 3).code == 0
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "three.jsonl").read_bytes()


def test_no_speakers(tmp_path: Path, tones: Lines) -> None:
    manifest = write_lines(tmp_path / "m.json", [dict(line, speaker="") for line in tones])
    refused = find(manifest, tmp_path / "out.jsonl")
    assert refused.code == 2
    assert "records have no speaker, so they cannot be compared" in refused.err


@pytest.mark.parametrize("count", [0, 1, 7, 300])
def test_similar_pairs(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_voice, "_VALUES_AT_ONCE", 2000)
    voices = np.random.default_rng(count).normal(size=(count, 8))
    voices /= np.sqrt((voices**2).sum(axis=1, keepdims=True))
    voices[count // 2 : count // 2 + 1] = np.nan
    exact = (voices[:, None] * voices).sum(axis=2)
    pairs_of_all = np.argwhere(np.triu(~np.isnan(exact), 1))
    best = sorted((exact[tuple(pair)] for pair in pairs_of_all), reverse=True)[:20]
    least = min([0.7, *best])
    expected = [tuple(pair) for pair in pairs_of_all.tolist() if exact[tuple(pair)] >= least]
    pairs, similarities = similar_pairs(voices, 0.7)
    assert list(map(tuple, pairs.tolist())) == expected
    assert similarities == pytest.approx([exact[pair] for pair in expected])


@pytest.mark.slow
def test_with_resemblyzer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Synthetic voices: half of the utterances of two speakers have another name."""
    need_package("resemblyzer")
    from prepcli.models import speakers

    monkeypatch.setattr(embedding, "load_speaker_encoder", speakers.load_speaker_encoder)
    records = [record for record in corpus() if record["speaker"] in (*TWO_NAMES, "s04", "s08")]
    for number, record in enumerate(records):
        if record["speaker"] in TWO_NAMES and number % 2:
            record["speaker"] += "b"
    manifest = write_lines(tmp_path / "m.json", records)
    done = find(manifest, tmp_path / "out.jsonl", model="resemblyzer", least=0.93)
    assert done.code == 0, done.err
    assert groups(tmp_path / "out.jsonl") == [{name, f"{name}b"} for name in TWO_NAMES]
