"""NeMo's adapters as judges: every turn that they read has the text and the samples of the source."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.commands.exports.conversations.test_command import corpus as corpus
from tests.commands.exports.conversations.test_command import made, nemo_lines, share_gpt_lines, text
from tests.conftest import Lines, write_lines
from tests.support.running import prepcli

pytestmark = pytest.mark.nemo


def samples_of(corpus: Path, turn: dict[str, Any]) -> np.ndarray[Any, Any]:
    samples, rate = soundfile.read(corpus / turn["value"], dtype="float32")
    start = round(turn.get("offset", 0) * rate)
    stop = start + round(turn["duration"] * rate) if "duration" in turn else len(samples)
    return np.asarray(samples[start:stop])


def check(read: Any, lines: Lines, corpus: Path) -> None:
    """Compare the conversations of a reader with lines in NeMo's form, in their order."""
    for found, line in zip(read, lines, strict=True):
        assert found.id == line["id"]
        for turn, wanted in zip(found.turns, line["conversations"], strict=True):
            assert turn.role == wanted["from"].lower()
            if wanted["type"] == "text":
                assert turn.value == wanted["value"]
            else:
                assert np.array_equal(turn.cut.load_audio()[0], samples_of(corpus, wanted))


def as_nemo(lines: Lines) -> Lines:
    """Lines of ShareGPT with one placeholder at the end of the first turn, in NeMo's form."""
    return [
        {
            "id": line["id"],
            "conversations": [
                {"from": "User", "type": "text", "value": "Write:"},
                {"from": "User", "type": "audio", "value": line["sound"]},
                {"from": "Assistant", "type": "text", "value": line["conversations"][1]["value"]},
            ],
        }
        for line in lines
    ]


def test_tars_with_manifests(corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("nemo.collections.common")
    from nemo.collections.common.data.lhotse.text_adapters import NeMoMultimodalConversationJsonlAdapter

    said = [text("System", "Be kind."), text("User", "Hello?"), text("Assistant", "Yes.")]
    texts: Lines = [{"id": f"t{number}", "conversations": said} for number in range(6)]
    mixed = [*texts[:5], *nemo_lines()[:3], texts[5]]  # no conversation of the first shard has audio
    write_lines(corpus / "mixed.jsonl", mixed)
    for name, lines in (("nemo", nemo_lines()), ("share_gpt", as_nemo(share_gpt_lines())), ("mixed", mixed)):
        outputs = made(corpus / f"{name}.jsonl", tmp_path / name, "--num-shards", 3)["outputs"]
        paths = outputs["manifest_filepath"], outputs["tarred_audio_filepaths"]
        read = NeMoMultimodalConversationJsonlAdapter(
            paths[0], audio_locator_tag="[audio]", tarred_audio_filepaths=paths[1], shard_seed=0
        )
        check(read, lines, corpus)


def test_a_batch_of_two_sets(corpus: Path, tmp_path: Path) -> None:
    """NeMo finds the audio of a batch by the ids of cuts, which are the names of members: each is heard once."""
    pytest.importorskip("nemo.collections.common")
    from nemo.collections.common.data.lhotse.text_adapters import NeMoMultimodalConversationJsonlAdapter

    ids = []
    for name, lines in (("one", nemo_lines()[:3]), ("two", nemo_lines()[3:6])):
        write_lines(corpus / f"{name}.jsonl", lines)
        outputs = made(corpus / f"{name}.jsonl", tmp_path / name)["outputs"]
        tars = {"tarred_audio_filepaths": outputs["tarred_audio_filepaths"], "shard_seed": 0}
        read = NeMoMultimodalConversationJsonlAdapter(outputs["manifest_filepath"], "[audio]", **tars)
        ids += [cut.id for found in read for cut in found.list_cuts()]
    assert len(set(ids)) == len(ids) == 12


def test_pairs_in_order_and_at_random(corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("nemo.collections.common")
    from nemo.collections.common.data.lhotse.indexed_adapters import IndexedTarSampleReader
    from nemo.collections.common.data.lhotse.text_adapters import NeMoMultimodalConversationShareGPTWebdatasetAdapter

    made(corpus / "share_gpt.jsonl", tmp_path / "out", "--form", "sharegpt-webdataset", "--num-shards", 2)
    wanted = as_nemo(share_gpt_lines())
    folder = str(tmp_path / "out")
    check(NeMoMultimodalConversationShareGPTWebdatasetAdapter(folder, "[audio]", shard_seed=0), wanted, corpus)
    shuffled = NeMoMultimodalConversationShareGPTWebdatasetAdapter(folder, "[audio]", shuffle_shards=True, shard_seed=1)
    check(sorted(shuffled, key=lambda one: one.id), sorted(wanted, key=lambda line: line["id"]), corpus)
    reader = IndexedTarSampleReader(tmp_path / "out/shard-0.tar")
    numbers = random.Random(1).sample(range(len(reader)), len(reader))
    assert [reader[number][0]["id"] for number in numbers] == [wanted[number]["id"] for number in numbers]


def test_the_filtered_lines(corpus: Path, tmp_path: Path) -> None:
    """What filter writes is read as plain lines, with absolute paths."""
    pytest.importorskip("nemo.collections.common")
    from nemo.collections.common.data.lhotse.text_adapters import NeMoMultimodalConversationJsonlAdapter

    write_lines(corpus / "few.jsonl", share_gpt_lines()[:4])
    assert prepcli("filter", corpus / "few.jsonl", tmp_path / "kept.json", "--keep", "duration > 0").code == 0
    read = NeMoMultimodalConversationJsonlAdapter(
        str(tmp_path / "kept.json"), audio_locator_tag="[audio]", shard_seed=0
    )
    check(read, as_nemo(share_gpt_lines()[:4]), corpus)
