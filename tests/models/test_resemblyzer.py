"""Speaker encoders on real audio: no influence of batch-mates, and agreement with who made the weights."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from prepcli.errors import UsageError
from prepcli.jobs.prefetch import SegmentDecoder
from prepcli.jobs.records import Records
from prepcli.models.batches import equal_length_batches
from prepcli.models.protocols import SpeakerEncoder
from prepcli.models.resemblyzer import DIM, PARTIAL_FRAMES, ResemblyzerEncoder, num_partials, weights_file
from prepcli.models.running import ModelRunner
from prepcli.models.speakers import load_speaker_encoder
from tests.conftest import real_speech
from tests.support.lazy import lazy
from tests.support.speaker_models import corpus_audio
from tests.support.tools import need_package, slow

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

Audio = list[NDArray[np.float32]]


@pytest.fixture(scope="module")
def audio() -> Audio:
    return corpus_audio()


@pytest.fixture(scope="module")
def resemblyzer_encoder() -> ResemblyzerEncoder:
    need_package("resemblyzer")
    return ResemblyzerEncoder()


@pytest.fixture(scope="module")
def nemo_encoder(speaker_model: Path) -> SpeakerEncoder:
    return load_speaker_encoder(str(speaker_model))


def lengths_of(audio: Audio) -> NDArray[np.int64]:
    return np.array([len(samples) for samples in audio])


def embed(encoder: SpeakerEncoder, audio: Audio, padded: NDArray[np.int64], batch_seconds: float) -> torch.Tensor:
    """Embeddings (N, dim) made in batches of items that have one place."""
    lengths = lengths_of(audio)
    result = torch.zeros(len(audio), encoder.dim)
    with ModelRunner("cpu", encoder.rows_on_cpu) as runner:
        for batch in equal_length_batches(padded, int(batch_seconds * encoder.sampling_rate)):
            rows = torch.zeros(len(batch), int(padded[batch[0]]))
            for row, number in enumerate(batch):
                rows[row, : lengths[number]] = torch.from_numpy(audio[number])
            (result[batch],) = runner.run(encoder.embed, rows, torch.from_numpy(lengths[batch])).result().tensors
    return result


def furthest(left: torch.Tensor, right: torch.Tensor) -> float:
    """One minus the smallest cosine of corresponding rows."""
    return 1 - float((left.double() * right.double()).sum(1).min())


@pytest.mark.torch
@pytest.mark.parametrize("name", [slow("resemblyzer_encoder"), pytest.param("nemo_encoder", marks=pytest.mark.nemo)])
def test_batches_of_any_size_give_the_same_embeddings(name: str, audio: Audio, request: pytest.FixtureRequest) -> None:
    encoder: SpeakerEncoder = request.getfixturevalue(name)
    if name == "resemblyzer_encoder":  # an LSTM, which takes half a second for eight recordings
        by_length = sorted(audio, key=len)
        audio = by_length[:2] + by_length[20:24] + by_length[-2:]
    padded = encoder.padded_lengths(lengths_of(audio))
    alone = embed(encoder, audio, padded, 0.01)
    assert torch.allclose(alone.norm(dim=1), torch.ones(len(audio)), atol=1e-5)
    for seconds in (7, 40, 10_000):
        assert torch.equal(alone, embed(encoder, audio, padded, seconds))
    similarities = (alone @ alone.T).numpy()
    assert similarities[np.triu_indices(len(audio), 1)].std() > 0.1 or name == "resemblyzer_encoder"


@pytest.mark.nemo
def test_the_place_on_the_grid_changes_nothing_but_free_padding_does(
    nemo_encoder: SpeakerEncoder, audio: Audio
) -> None:
    """The model of the tests is one whose embeddings padding would change: otherwise the test above shows nothing."""
    lengths = lengths_of(audio)
    padded = nemo_encoder.padded_lengths(lengths)
    assert (padded >= lengths).all()
    assert (padded - lengths).max() < 16 * 160 + 160
    alone = embed(nemo_encoder, audio, padded, 0.01)
    assert furthest(alone, embed(nemo_encoder, audio, lengths, 0.01)) < 1e-5
    assert furthest(alone, embed(nemo_encoder, audio, np.full(len(audio), lengths.max()), 10_000)) > 1e-2


@pytest.mark.nemo
def test_random_model_tells_voices_apart(nemo_encoder: SpeakerEncoder, audio: Audio) -> None:
    embeddings = embed(nemo_encoder, audio, nemo_encoder.padded_lengths(lengths_of(audio)), 100).numpy()
    similarities = (embeddings @ embeddings.T)[np.triu_indices(len(audio), 1)]
    assert similarities.std() > 0.1
    assert (nemo_encoder.sampling_rate, nemo_encoder.min_samples, nemo_encoder.dim) == (16000, 320, 32)


@pytest.mark.torch
@pytest.mark.slow
def test_resemblyzer_as_the_package_has_it(resemblyzer_encoder: ResemblyzerEncoder, audio: Audio) -> None:
    package = pytest.importorskip("resemblyzer")
    theirs = package.VoiceEncoder("cpu", verbose=False)
    for loudness in (1.0, 0.01):  # the second is quiet enough to be amplified
        own = [samples * np.float32(loudness) for samples in audio[::4]]
        ours = embed(resemblyzer_encoder, own, resemblyzer_encoder.padded_lengths(lengths_of(own)), 30)
        wanted = np.stack(
            [theirs.embed_utterance(package.normalize_volume(samples, -30, increase_only=True)) for samples in own]
        )
        assert furthest(ours, torch.from_numpy(wanted)) < 1e-4


@pytest.mark.torch
@pytest.mark.slow  # for the package's imports
def test_partials_as_the_package_cuts_them(resemblyzer_encoder: ResemblyzerEncoder) -> None:
    encoder = pytest.importorskip("resemblyzer").VoiceEncoder
    lengths = np.concatenate([np.arange(400, 60_000, 7), [31_519, 31_520, 16_000 * 60]])
    wanted = [len(encoder.compute_partial_slices(int(length), 1.3, 0.75)[0]) for length in lengths]
    assert num_partials(lengths).tolist() == wanted
    padded = resemblyzer_encoder.padded_lengths(lengths)
    assert (padded >= lengths).all()
    assert (num_partials(padded) == num_partials(lengths)).all()
    assert (num_partials(padded + 1) == num_partials(lengths) + 1).all()


@pytest.mark.torch
def test_resemblyzer_makes_nothing_of_silence_or_says_so(resemblyzer_encoder: ResemblyzerEncoder) -> None:
    """Digital silence gives an embedding or NaN, and does not change other rows."""
    rows = torch.zeros(2, int(resemblyzer_encoder.padded_lengths(np.array([16_000]))[0]))
    rows[1, :16_000] = torch.randn(16_000) * 0.1
    together = resemblyzer_encoder.embed(rows, torch.tensor([16_000, 16_000]))
    alone = resemblyzer_encoder.embed(rows[1:], torch.tensor([16_000]))
    assert together.shape == (2, DIM)
    assert torch.equal(together[1:], alone)
    assert PARTIAL_FRAMES == 160
    assert weights_file().name == "pretrained.pt"


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.skipif(real_speech() is None, reason="the recordings of real voices are not here")
def test_voices_of_real_speech(resemblyzer_encoder: ResemblyzerEncoder) -> None:
    """Utterances of one voice are nearer to each other than to the other voice, in 95 % of pairs of means."""
    folder = real_speech()
    assert folder is not None
    records = Records([str(folder / "manifest.json")])
    decoder = SegmentDecoder(records, 16000, resemblyzer_encoder.min_samples)
    entries = [json.loads(records.line(number)) for number in range(len(records))]
    voices: dict[str, list[int]] = {}
    for number, entry in enumerate(entries):
        if entry["duration"] >= 2 and len(voices.setdefault(entry["speaker"], [])) < 48:
            voices[entry["speaker"]].append(number)
    assert len(voices) == 2
    means = {}
    for voice, numbers in voices.items():
        audio = [decoder.decode(number) for number in numbers]
        embeddings = embed(resemblyzer_encoder, audio, resemblyzer_encoder.padded_lengths(lengths_of(audio)), 60)
        groups = embeddings.reshape(-1, 4, DIM).mean(1)
        means[voice] = torch.nn.functional.normalize(groups, dim=1)
    own, other = means.values()
    good = total = 0
    for one, two in ((own, other), (other, own)):
        across = one @ two.T
        within = one @ one.T
        for a, b in itertools.permutations(range(len(one)), 2):
            good += int((within[a, b] > across[a]).sum())
            total += len(two)
    assert good / total >= 0.95


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install --no-deps Resemblyzer"):
        weights_file()
