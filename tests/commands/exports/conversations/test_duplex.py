"""The forms of recordings of two voices: NeMo's data set reads the Shar, and Moshi's trainer the stereo files."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.conftest import Lines, read_lines, tree, write_lines
from tests.support.running import prepcli

RATE = 8000
FORMS = ("duplex", "moshi")


def word(talk: int, channel: int, number: int) -> tuple[str, float]:
    """A word and its start: the voices take turns, and speak at the same time a little."""
    return f"w{talk}{channel}{number}", 1 + 2 * number + 0.9 * channel


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three stereo recordings of ten seconds, the words of both channels, and their segments."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    rows, lines = [], []
    for talk in range(3):
        samples = (random.standard_normal((10 * RATE, 2)) * 3000).astype(np.int16)
        soundfile.write(f"talk{talk}.wav", samples, RATE)
        for channel in range(2):
            lines.append({"audio_filepath": f"talk{talk}.wav", "duration": 10.0, "channel": channel})
            for number in range(4):
                text, start = word(talk, channel, number)
                rows.append(f"talk{talk} {channel + 1} {start:.2f} 1.00 {text}\n")
    write_lines(Path("both.json"), lines)
    Path("all.ctm").write_text("".join(rows))
    times = ("--by", "times", "--times", "all.ctm", "--max", 3, "--join-pause", 0.2, "--min", 0.1)
    assert prepcli("segment", "both.json", "m.json", *times).code == 0
    return tmp_path


def made(out: str, form: str, *more: object, source: str = "m.json") -> Any:
    return prepcli(
        "conversations-to-tarred", source, out, "--form", form, "--agent-channel", 1, "--shard-size", 2, *more, "--json"
    )


def test_files_for_moshi(corpus: Path) -> None:
    """The agent is on the left, and its words have times in the recording, in their order."""
    assert made("out", "moshi").json["outputs"] == {"train_data": f"{corpus}/out"}
    listed = [line for number in range(2) for line in read_lines(Path(f"out/data_{number}.jsonl"))]
    assert [line["duration"] for line in listed] == [10.0] * 3
    for talk, line in enumerate(listed):
        stored, _ = soundfile.read(Path("out", line["path"]), dtype="int16")
        given, _ = soundfile.read(f"talk{talk}.wav", dtype="int16")
        assert np.array_equal(stored, given[:, ::-1])
        found = json.loads(Path("out", line["path"]).with_suffix(".json").read_bytes())
        words = [word(talk, 1, number) for number in range(4)]
        assert found["alignments"] == [[text, [start, start + 1], "SPEAKER_MAIN"] for text, start in words]


@pytest.mark.parametrize("form", FORMS)
def test_ranks_write_the_same_bytes(corpus: Path, form: str) -> None:
    assert made("whole", form, "--target-sample-rate", 16000).json["records_out"] == 3
    for rank in range(2):
        done = made("ranks", form, "--target-sample-rate", 16000, "--rank", rank, "--world-size", 2)
        assert done.code == 0, done.err
    assert tree(corpus / "ranks") == tree(corpus / "whole")
    assert prepcli("verify", "whole").code == 0


def test_what_cannot_be_used(corpus: Path) -> None:
    """A recording is a reject as a whole."""
    segments = read_lines(Path("m.json"))
    soundfile.write("mono.wav", np.zeros(RATE), RATE)
    good = {"audio_filepath": "talk0.wav", "offset": 1.0, "duration": 1.0, "channel": 0, "text": "a"}

    def bad(number: int, **changes: object) -> Lines:
        Path(f"bad{number}.wav").symlink_to("talk0.wav")
        fields = good | {"audio_filepath": f"bad{number}.wav"}
        changed = {name: value for name, value in (fields | changes).items() if value is not None}
        return [fields, {"audio_filepath": f"bad{number}.wav"} | changed]

    lines = [
        *segments,
        {**good, "audio_filepath": "mono.wav", "offset": 0.0},
        *bad(0, channel=2),
        *bad(1, text=" "),
        *bad(2, offset=9.5),
        *bad(3, duration=None),
    ]
    write_lines(Path("bad.json"), lines)
    done = made("out", "duplex", "--max-rejects", 9, source="bad.json")
    assert (done.code, done.json["records_out"]) == (0, 3)
    rejects = read_lines(Path("out.prepcli/rejects.jsonl"))
    reasons = sorted((line["reject_reason"], line["reject_detail"].rpartition("/")[2]) for line in rejects)
    assert reasons == [
        ("bad_field", "mono.wav has 1 channel; two voices need two"),
        ("beyond_audio", "turn 2: offset 9.5 s + duration 1 s ends 0.500 s after the end of the audio (10.000 s)"),
        ("missing_field", "turn 2: the segment has no duration"),
        ("missing_field", "turn 2: the text ' ' and the channel 0; a segment needs a text, and 0 or 1"),
        ("missing_field", "turn 2: the text 'a' and the channel 2; a segment needs a text, and 0 or 1"),
    ]
    write_lines(Path("apart.json"), [*segments, segments[0]])
    done = made("none", "duplex", source="apart.json")
    assert (done.code, done.err) == (
        2,
        f"prepcli: the segments of talk0.wav are in several places of {corpus}/apart.json: sort it by audio_filepath\n",
    )
    for words in (None, "a", [{"word": "a", "start": "0", "end": 1}], [{"word": "a", "start": -1, "end": 1}]):
        write_lines(Path("lines.json"), [line | {"words": words} for line in segments])
        done = made("none", "moshi", "--overwrite", source="lines.json")
        assert done.code == 3
        assert "a segment has no words with times: cut it by words" in done.err + str(done.json)


def test_both_options_or_none(corpus: Path) -> None:
    for options in (("--form", "duplex"), ("--agent-channel", 0)):
        done = prepcli("conversations-to-tarred", "m.json", "out", *options)
        assert done.code == 2
        assert "--agent-channel and the forms duplex and moshi need each other" in done.err


@pytest.mark.nemo
def test_nemo_reads_both_channels(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collections = pytest.importorskip("nemo.collections")
    for name in ("speechlm2", "speechlm2.data"):  # without what they import: models of other packages
        module = ModuleType(f"nemo.collections.{name}")
        module.__path__ = [str(Path(collections.__path__[0], *name.split(".")))]
        monkeypatch.setitem(sys.modules, module.__name__, module)
    from lhotse import CutSet
    from nemo.collections.speechlm2.data.s2s_dataset import DuplexS2SDataset

    paths = made("out", "duplex").json["outputs"]
    fields = {name: sorted(Path(paths[name]).parent.iterdir()) for name in ("cuts", "recording", "target_audio")}
    cuts = CutSet.from_shar(fields={name: [str(path) for path in found] for name, found in fields.items()})

    class Tokenizer:
        """A token for each word: its channel and its number."""

        bos, eos, pad, pad_id = 1, 2, 0, 0

        def text_to_ids(self, text: str) -> list[int]:
            return [100 + 10 * int(one[2]) + int(one[3]) for one in text.split()]

    data: Any = DuplexS2SDataset(Tokenizer(), 0.1, RATE, RATE)
    batch = data[CutSet.from_cuts(list(cuts))]
    for talk in range(3):
        given, _ = soundfile.read(f"talk{talk}.wav", dtype="float32")
        assert np.array_equal(batch["source_audio"][talk].numpy(), given[:, 0])
        assert np.array_equal(batch["target_audio"][talk].numpy(), given[:, 1])
        assert batch["target_texts"][talk] == " ".join(word(talk, 1, number)[0] for number in range(4))
        for channel, name in enumerate(("source_tokens", "target_tokens")):
            tokens = batch[name][talk].tolist()
            starts = [tokens.index(100 + 10 * channel + number) - 1 for number in range(4)]
            assert [tokens[start] for start in starts] == [1] * 4
            # segments begin up to 0.2 s before their word
            assert all(0 <= word(talk, channel, n)[1] - start / 10 < 0.25 for n, start in enumerate(starts))
