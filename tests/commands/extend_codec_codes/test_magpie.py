"""NeMo's MagpieTTSDataset reads the codes of a plain manifest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.lazy import lazy
from tests.support.running import prepcli
from tests.support.toy_codec import use_toy_codec

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

pytestmark = pytest.mark.nemo


def magpie_dataset(manifest: Path) -> Any:
    from nemo.collections.common.tokenizers.text_to_speech.tts_tokenizers import (
        AggregatedTTSTokenizer,
        EnglishCharsTokenizer,
    )
    from nemo.collections.tts.data.text_to_speech_dataset import MagpieTTSDataset

    dataset = MagpieTTSDataset(
        dataset_meta={"mini": {"manifest_path": str(manifest), "audio_dir": str(MINI_CORPUS), "feature_dir": None}},
        sample_rate=16000,
        codec_model_samples_per_frame=160,
        bos_id=1,
        eos_id=2,
        num_audio_codebooks=4,
        load_16khz_audio=False,
        context_duration_min=0.01,
        context_duration_max=100.0,
    )
    dataset.text_tokenizer = AggregatedTTSTokenizer([EnglishCharsTokenizer()], ["english_phoneme"])
    return dataset


def test_targets_and_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches; some records have no context."""
    pytest.importorskip("nemo.collections.tts")
    torch.set_num_threads(1)
    use_toy_codec(monkeypatch.setattr)
    records = read_lines(MINI_CORPUS / "manifest_with_context.json")[:24]
    for record in records[::5]:
        for name in [name for name in record if name.startswith("context_audio_")]:
            del record[name]
    manifest = write_lines(tmp_path / "m.json", records)
    words = ("--codec-model", "toy", "--devices", "cpu", "--output-dir", tmp_path / "out")
    done = prepcli("extend-codec-codes", manifest, *words, "--audio-base-dir", MINI_CORPUS)
    assert done.code == 0, done.err
    dataset = magpie_dataset(tmp_path / "out/m_withAudioCodes_toy.json")
    assert len(dataset) == len(records)
    for start in range(0, len(records), 6):
        lines = [sample.manifest_entry for sample in dataset.data_samples[start : start + 6]]
        batch = dataset.collate_fn([dataset[number] for number in range(start, start + 6)])
        assert batch["raw_texts"] == [record["text"] for record in records[start : start + 6]]
        for row, line in enumerate(lines):
            codes = torch.load(line["target_audio_codes_path"])
            assert codes.shape == (4, -(-round(line["duration"] * 16000) // 160))
            assert torch.equal(batch["audio_codes"][row, :, : batch["audio_codes_lens"][row]], codes)
            count = int(batch["context_audio_codes_lens"][row])
            if "context_audio_codes_path" not in line:
                assert count == 0
                continue
            context = torch.load(line["context_audio_codes_path"])
            taken = batch["context_audio_codes"][row, :, :count]
            starts = range(context.shape[1] - count + 1)  # it takes a random part
            assert any(torch.equal(taken, context[:, at : at + count]) for at in starts)
