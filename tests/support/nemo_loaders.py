"""What trainers read of our data sets: batches from NeMo's own loaders, and padding from lhotse's samplers."""

import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import pytest


def tarred_batches(out: Path, rate: int) -> list[list[tuple[str, Any]]]:
    """Text and samples of everything in a tarred set, through NeMo's Lhotse loader; `rate` in Hz."""
    last = len(list(out.glob("audio_*.tar"))) - 1
    source = {
        "manifest_filepath": f"{out}/sharded_manifests/manifest__OP_0..{last}_CL_.json",
        "tarred_audio_filepaths": f"{out}/audio__OP_0..{last}_CL_.tar",
        "shuffle": True,
    }
    return asr_batches(source, rate)


def asr_batches(section: dict[str, Any], rate: int) -> list[list[tuple[str, Any]]]:
    """Text and samples of everything that NeMo's Lhotse loader reads with a `train_ds` section; `rate` in Hz."""
    pytest.importorskip("nemo.collections.asr")

    class Cuts:
        def __getitem__(self, cuts: Any) -> list[tuple[str, Any]]:
            return [(cut.supervisions[0].text, cut.load_audio()[0]) for cut in cuts]

    return _batches(section, rate, Cuts())


def read_all(section: dict[str, Any]) -> list[str]:
    """The texts of everything that NeMo's Lhotse loader reads with a `train_ds` section."""

    class Texts:
        def __getitem__(self, cuts: Any) -> list[str]:
            return [cut.supervisions[0].text for cut in cuts]

    return [text for batch in _batches(section, 16000, Texts()) for text in batch]


def first_batches(section: dict[str, Any], count: int) -> list[list[tuple[str, float]]]:
    """Texts and durations (seconds) of the first batches that NeMo's Lhotse loader makes with a `train_ds` section."""
    from nemo.collections.common.data.lhotse.dataloader import get_lhotse_dataloader_from_config
    from omegaconf import OmegaConf

    class Cuts:
        def __getitem__(self, cuts: Any) -> list[tuple[str, float]]:
            return [(cut.supervisions[0].text, cut.duration) for cut in cuts]

    # Without a thread, which would go on to read ahead when the files are gone.
    reading = {"num_workers": 0, "concurrent_bucketing": False, "bucket_buffer_size": 2000, "shuffle_buffer_size": 500}
    config = OmegaConf.create(section | reading)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = get_lhotse_dataloader_from_config(config, global_rank=0, world_size=1, dataset=Cuts())
        return list(islice(loader, count))


def magpie_batches(out: Path, rate: int, codes: Path | None = None) -> list[dict[str, Any]]:
    """Everything that MagpieTTS sees of a set, through NeMo's data loader; with its `codes` (a folder codes_<name>)."""
    pytest.importorskip("nemo.collections.tts")
    from nemo.collections.tts.data.text_to_speech_dataset_lhotse import MagpieTTSLhotseDataset
    from omegaconf import OmegaConf

    characters = "nemo.collections.common.tokenizers.text_to_speech.tts_tokenizers.EnglishCharsTokenizer"
    dataset = MagpieTTSLhotseDataset(
        sample_rate=rate,
        volume_norm=False,
        codec_model_samples_per_frame=1,
        num_audio_codebooks=8,
        load_cached_codes_if_available=codes is not None,
        load_16khz_audio=False,
        context_duration_min=0.01,
        context_duration_max=0.01,
        tokenizer_config=OmegaConf.create({"english_phoneme": {"_target_": characters}}),
    )
    shards = sorted(path.name.split(".")[1] for path in (out / "cuts").iterdir())
    number = f"_OP_{shards[0]}..{shards[-1]}_CL_"
    fields = {
        "cuts": f"{out}/cuts/cuts.{number}.jsonl.gz",
        "target_audio": f"{out}/target_audio/recording.{number}.tar",
    }
    if (out / "context_audio").exists():
        fields["context_audio"] = f"{out}/context_audio/recording.{number}.tar"
    if codes is not None:
        fields |= {field.name: f"{field}/codes.{number}.tar" for field in codes.iterdir()}
    return _batches({"shar_path": fields, "shuffle": False}, rate, dataset)


def _batches(source: dict[str, Any], rate: int, dataset: Any) -> list[Any]:
    from nemo.collections.common.data.lhotse.dataloader import get_lhotse_dataloader_from_config
    from omegaconf import OmegaConf

    config = OmegaConf.create(
        {
            **source,
            "sample_rate": rate,
            "batch_size": 4,
            "num_workers": 0,
            "force_finite": True,
            "min_duration": 0,
            "max_duration": 1000,
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(get_lhotse_dataloader_from_config(config, global_rank=0, world_size=1, dataset=dataset))


def delivered_padding(sampler: Any) -> float:
    """The share of padding in the batches of one of lhotse's samplers."""
    frames = seconds = 0.0
    for batch in sampler:
        lengths = [cut.duration for cut in batch]
        frames += len(lengths) * max(lengths)
        seconds += sum(lengths)
    return 1 - seconds / frames
