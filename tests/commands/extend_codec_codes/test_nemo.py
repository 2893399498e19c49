"""extend-codec-codes with NeMo's codec, through the real path: a `.nemo` file, restored, and NeMo's own dataset."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from prepcli.audio.resample import resample
from prepcli.commands.extend_codec_codes.command import extend_codec_codes
from prepcli.errors import UsageError
from prepcli.models.codecs import load_codec
from prepcli.models.nemo_codec import NemoCodec
from prepcli.models.protocols import Codec
from prepcli.models.running import ModelRunner
from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.codec_models import SAMPLES_PER_FRAME, SAMPLING_RATE
from tests.support.codes_sets import alone, lhotse_cuts
from tests.support.lazy import lazy
from tests.support.nemo_loaders import magpie_batches
from tests.support.running import prepcli
from tests.support.shar_sets import make

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

pytestmark = pytest.mark.nemo


def test_nemos_codec(codec_model: Path, tmp_path: Path) -> None:
    """One test, for one process loads NeMo's models then."""
    torch.set_num_threads(1)
    codec = load_codec(str(codec_model))
    check_what_the_codec_says_of_itself(codec)
    check_threads_and_batches_change_nothing(codec)
    shar = extended(tmp_path, codec_model)
    check_codes_are_nemos_of_each_segment_alone(shar, codec)
    check_magpie_reads_the_codes(shar)
    check_a_file_that_is_cut_off_stops_before_anything_is_written(shar, codec_model, tmp_path / "torn")


def extended(folder: Path, codec_model: Path) -> Path:
    """Half of the mini corpus with contexts, each fourth at 8, 16 or 44.1 kHz, one frame, and a minute; with codes."""
    records = read_lines(MINI_CORPUS / "manifest_with_context.json")[::2]
    rates = (22050, 8000, 16000, 44100)
    for number, record in enumerate(records):
        for field in ("audio_filepath", "context_audio_filepath"):
            record[field] = str(MINI_CORPUS / record[field])
        rate = rates[number % len(rates)]
        if rate != 22050:
            samples, own_rate = soundfile.read(record["audio_filepath"], dtype="int16")
            record["audio_filepath"] = f"{number}.wav"
            soundfile.write(folder / f"{number}.wav", resample(samples, own_rate, rate), rate)
    for name, seconds in (("frame.wav", SAMPLES_PER_FRAME / SAMPLING_RATE), ("minute.wav", 60.0)):
        write_audio(folder / name, seconds, SAMPLING_RATE)
        records.append(records[0] | {"audio_filepath": name, "duration": seconds, "text": name})
    out = folder / "shar"
    make(write_lines(folder / "m.json", records), out, "--shard-size", 8)
    done = prepcli("extend-codec-codes", out, "--codec-model", codec_model, "--devices", "cpu", "--json")
    assert (done.code, done.err) == (0, "")  # no chatter, and stdout is one JSON object
    assert done.json["records_out"] == 26
    checked = prepcli("verify", out)
    assert checked.code == 0, checked.out
    return out


def check_codes_are_nemos_of_each_segment_alone(shar: Path, codec: Codec) -> None:
    assert isinstance(codec, NemoCodec)
    different = mixed_different = padded_different = total = 0
    used = set()
    for number, cut in enumerate(lhotse_cuts(shar, shar / "codes_small_codec")):
        for audio, codes in ((cut.target_audio, cut.target_codes), (cut.context_audio, cut.context_codes)):
            found, wanted = codes.load(), alone(codec, audio)
            assert found.dtype == np.int16
            assert found.shape == wanted.shape
            assert found.shape[1] == -(-audio.resample(SAMPLING_RATE).num_samples // SAMPLES_PER_FRAME)
            assert codes.frame_shift == SAMPLES_PER_FRAME / SAMPLING_RATE
            different += int((found != wanted).sum())
            used |= set(found.ravel().tolist())
        if cut.duration < 60 and number % 4:  # `tests/models/test_grid_codes.py` has more
            # The codec is touchy: where NeMo encodes a batch of mixed lengths, the end comes out otherwise.
            samples = torch.from_numpy(cut.target_audio.resample(SAMPLING_RATE).load_audio())
            longer = torch.nn.functional.pad(samples, (0, 100 * SAMPLES_PER_FRAME))
            lengths = torch.tensor([samples.shape[1], longer.shape[1]])
            rows = torch.cat([longer, longer])
            mixed, frames = codec.encode(rows, lengths, "fp32")
            mixed_different += int((mixed[0, :, : frames[0]].numpy() != cut.target_codes.load()).sum())
            theirs, frames = codec._model.encode(audio=rows, audio_len=lengths)
            padded_different += int((theirs[0, :, : frames[0]].numpy() != cut.target_codes.load()).sum())
            total += cut.target_codes.load().size
    assert different == 0
    assert mixed_different <= total / 10_000
    assert padded_different > 100
    assert len(used) > 0.9 * codec.codebook_size


def check_what_the_codec_says_of_itself(codec: Codec) -> None:
    assert (codec.sampling_rate, codec.samples_per_frame) == (SAMPLING_RATE, SAMPLES_PER_FRAME)
    assert (codec.codebook_size, codec.min_frames) == (2016, 1)
    assert codec.values_per_sample == 4.0  # the channels of its first layer
    assert isinstance(codec, NemoCodec)
    audio = torch.randn(3, 20 * SAMPLES_PER_FRAME, generator=torch.Generator().manual_seed(0)) / 10
    lengths = torch.full((3,), audio.shape[1])
    exact, fast, short = (codec.encode(audio, lengths, precision)[0] for precision in ("fp32", "tf32", "bf16"))
    assert torch.equal(exact, fast)  # a processor has no TF32
    # Its eight bits flip many codes of so sensitive a codec, but far fewer than other audio would.
    unrelated = (exact != exact.roll(1, 0)).float().mean()
    flipped = (exact != short).float().mean()
    assert 0 < flipped < 0.75 * unrelated
    assert 0 <= int(short.min()) <= int(short.max()) < 2016


def check_threads_and_batches_change_nothing(codec: Codec) -> None:
    audio = torch.randn(40, 21 * SAMPLES_PER_FRAME, generator=torch.Generator().manual_seed(1)) / 10
    lengths = torch.full((len(audio),), audio.shape[1])
    encode = partial(codec.encode, precision="fp32")
    for num_threads, rows in ((1, 40), (2, 40), (3, 7)):
        torch.set_num_threads(num_threads)
        with ModelRunner("cpu", codec.rows_on_cpu) as runner:
            running = [runner.run(encode, *batch) for batch in zip(audio.split(rows), lengths.split(rows), strict=True)]
            codes = torch.cat([one.result().tensors[0] for one in running])
        if num_threads == 1:
            expected = codes
        assert torch.equal(codes, expected)
    torch.set_num_threads(1)


def check_magpie_reads_the_codes(shar: Path) -> None:
    stored = {cut.supervisions[0].text: cut for cut in lhotse_cuts(shar, shar / "codes_small_codec")}
    seen = 0
    for batch in magpie_batches(shar, SAMPLING_RATE, shar / "codes_small_codec"):
        rows: Any = zip(batch["raw_texts"], batch["audio_codes"], batch["audio_codes_lens"], strict=True)
        assert len(batch["context_audio_codes"]) == len(batch["raw_texts"])
        for text, codes, length in rows:
            np.testing.assert_array_equal(codes[:, :length].numpy(), stored[text].target_codes.load())
            seen += 1
    assert seen == 26


def check_a_file_that_is_cut_off_stops_before_anything_is_written(
    shar: Path, codec_model: Path, tmp_path: Path
) -> None:
    """Its configuration is whole: only loading the weights can find it."""
    tmp_path.mkdir()
    torn = tmp_path / "torn.nemo"
    torn.write_bytes(codec_model.read_bytes()[:-60_000])
    out = tmp_path / "out"
    with warnings.catch_warnings(), pytest.raises(UsageError, match=r"codec_model=.*torn.nemo' cannot be loaded: "):
        warnings.simplefilter("ignore")
        extend_codec_codes(shar, torn, output_dir=out, devices="cpu")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["torn.nemo"]
