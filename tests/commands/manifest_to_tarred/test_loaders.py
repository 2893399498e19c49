"""The judges of our tars: NeMo's Lhotse loader, NeMo's classic loader, and plain webdataset."""

import io
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
import yaml

from tests.conftest import MINI_CORPUS, SHORT_CORPUS, read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.nemo_loaders import tarred_batches
from tests.support.running import prepcli

FOLDER = {"whole files": "files", "segments": "segments", "slices": "slices"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Whole files, and segments of two long files (one 4 ms apart), with the samples they should give."""
    folder = tmp_path_factory.mktemp("corpus")
    generator = np.random.default_rng(11)
    records = []
    for name in ("first", "second"):
        write_audio(folder / f"talks/{name}.long.wav", 30.0, seed=len(name))
        for number in range(12):
            offset, duration = round(generator.uniform(0, 25), 4), round(generator.uniform(0.3, 4.5), 4)
            records.append(
                {
                    "audio_filepath": f"talks/{name}.long.wav",
                    "offset": offset,
                    "duration": duration,
                    "text": f"{name} {number}",
                }
            )
    records.append(records[0] | {"offset": round(records[0]["offset"] + 0.004, 4), "text": "a near one"})  # type: ignore[operator]
    write_lines(folder / "segments.json", records)
    base = ["--audio-base-dir", folder]
    whole = ["--shuffle", "--num-shards", 4]
    assert prepcli("manifest-to-tarred", MINI_CORPUS / "manifest.json", folder / "files", *whole).code == 0
    for name, options in (("segments", []), ("slices", ["--slice-with-offset", "--force-codec", "flac"])):
        arguments = [folder / "segments.json", folder / name, "--num-shards", 3, *base, *options]
        done = prepcli("manifest-to-tarred", *arguments)
        assert done.code == 0, done.err
    return folder


def expected(corpus: Path, kind: str) -> dict[str, np.ndarray]:
    """Samples by text, straight from the sources."""
    if kind == "whole files":
        root, records = MINI_CORPUS, read_lines(MINI_CORPUS / "manifest.json")
    else:
        root, records = corpus, read_lines(corpus / "segments.json")
    found = {}
    for record in records:
        audio, rate = soundfile.read(root / record["audio_filepath"], dtype="int16")
        start = round(record.get("offset", 0.0) * rate)
        found[record["text"]] = audio[start : start + round(record["duration"] * rate)]
    assert len(found) == len(records)
    return found


def compare(corpus: Path, kind: str, seen: list[tuple[str, np.ndarray]]) -> None:
    """Every record once, and its samples: exact to the sample but for one at the ends (rounding of the loaders)."""
    sources = expected(corpus, kind)
    assert Counter(text for text, _ in seen) == Counter(dict.fromkeys(sources, 1))
    for text, samples in seen:
        source = sources[text]
        assert abs(len(samples) - len(source)) <= 1, text
        length = min(len(samples), len(source))
        exact = np.abs(samples[:length].astype(int) - source[:length]).max() <= 1
        shifted = np.abs(samples[1:length].astype(int) - source[: length - 1]).max() <= 1
        early = np.abs(samples[: length - 1].astype(int) - source[1:length]).max() <= 1
        assert exact or (kind == "segments" and (shifted or early)), text


@pytest.mark.nemo
@pytest.mark.parametrize("kind", FOLDER)
def test_nemo_lhotse_loader(corpus: Path, kind: str) -> None:
    rate = 22050 if kind == "whole files" else 8000
    seen = [
        (text, np.round(np.asarray(audio) * 32768).astype(np.int16))
        for batch in tarred_batches(corpus / FOLDER[kind], rate)
        for text, audio in batch
    ]
    compare(corpus, kind, seen)


@pytest.mark.nemo
@pytest.mark.parametrize("kind", FOLDER)
def test_nemo_classic_loader(corpus: Path, kind: str) -> None:
    pytest.importorskip("nemo.collections.asr")
    logging.disable(logging.WARNING)
    from nemo.collections.asr.data.audio_to_text import TarredAudioToCharDataset

    out = corpus / FOLDER[kind]
    last = len(list(out.glob("audio_*.tar"))) - 1
    texts = [line["text"] for line in read_lines(out / "tarred_audio_manifest.json")]
    dataset = TarredAudioToCharDataset(
        audio_tar_filepaths=f"{out}/audio__OP_0..{last}_CL_.tar",
        manifest_filepath=str(out / "tarred_audio_manifest.json"),
        labels=sorted(set("".join(texts))),
        normalize=False,
        sample_rate=22050 if kind == "whole files" else 8000,
        return_sample_id=True,
    )
    seen = []
    for audio, num_samples, _, _, number in dataset:
        seen.append((texts[number], np.round(audio[:num_samples].numpy() * 32768).astype(np.int16)))
    compare(corpus, kind, seen)


@pytest.mark.nemo
@pytest.mark.parametrize("options", [[], ["--no-shard-manifests"]])
def test_nemo_reads_every_version_with_its_section(tmp_path: Path, options: list[str]) -> None:
    """After an addition and after its removal: the section in `train_ds.yaml` is that of the set as it is then."""
    pytest.importorskip("nemo.collections.asr")
    from tests.support.nemo_loaders import read_all

    records = read_lines(SHORT_CORPUS / "manifest.json")
    first, second = write_lines(tmp_path / "a.json", records[:30]), write_lines(tmp_path / "b.json", records[30:])
    base = ["--audio-base-dir", SHORT_CORPUS]
    commands = [
        [first, tmp_path / "out", "--num-shards", 2, *base, *options],
        [second, "--concat-to", tmp_path / "out", *base],
        ["--concat-to", tmp_path / "out", "--undo-concat"],
    ]
    for command, count in zip(commands, (30, 48, 30), strict=True):
        done = prepcli("manifest-to-tarred", *command)
        assert done.code == 0, done.err
        section = yaml.safe_load((tmp_path / "out.prepcli/train_ds.yaml").read_text())["train_ds"]
        texts = read_all(section | {"batch_duration": 20})
        assert sorted(texts) == sorted(record["text"] for record in records[:count])


@pytest.mark.nemo
def test_nemo_takes_the_metadata(corpus: Path) -> None:
    """NeMo's config class refuses unknown keys: these are its fields."""
    config = yaml.safe_load((corpus / "files/metadata.yaml").read_text())["dataset_config"]
    assert set(config) == {
        "num_shards", "shuffle", "max_duration", "min_duration", "shuffle_seed", "sort_in_shards",
        "slice_with_offset", "shard_manifests", "keep_files_together", "force_codec", "use_lhotse",
        "use_bucketing", "num_buckets", "bucket_duration_bins",
    }  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["whole files", "slices"])
def test_plain_webdataset(corpus: Path, kind: str) -> None:
    import webdataset

    out = corpus / FOLDER[kind]
    texts = {line["audio_filepath"]: line["text"] for line in read_lines(out / "tarred_audio_manifest.json")}

    def samples() -> Iterator[tuple[str, np.ndarray]]:
        urls = [str(path) for path in sorted(out.glob("audio_*.tar"))]
        for sample in webdataset.WebDataset(urls, shardshuffle=False):
            (extension,) = [key for key in sample if not key.startswith("__")]
            audio, _ = soundfile.read(io.BytesIO(sample[extension]), dtype="int16")
            yield texts[f"{sample['__key__']}.{extension}"], audio

    compare(corpus, kind, list(samples()))
