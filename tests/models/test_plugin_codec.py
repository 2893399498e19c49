"""Codecs of other packages: found by their entry points, loaded only if they are named, and checked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from prepcli.errors import PrepcliError, UsageError
from prepcli.models.codecs import check_codec_model, codec_name, identity, load_codec
from prepcli.models.plugin_codec import is_plugin
from tests.conftest import MINI_CORPUS, Lines, read_lines, write_lines
from tests.models.snac_codec import documented_codec, install, save_tiny_snac
from tests.support.lazy import lazy
from tests.support.running import prepcli
from tests.support.tools import need_package

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

CODEC = """
import torch


class Codec:
    sampling_rate, samples_per_frame, num_codebooks, codebook_size = 16000, 160, 2, 70000

    def __init__(self, argument):
        self.seen = []
        vars(self).update(eval(argument or "{}"))

    def encode(self, samples, lengths):
        self.seen.append(len(samples))
        frames = samples.unflatten(1, (-1, self.samples_per_frame))
        return torch.stack([(frames.abs().sum(2) * 1000).long() % 7, frames.argmax(2) + 69000], 1)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in ("other_codecs", "broken_codecs", "my_codecs"):
        sys.modules.pop(name, None)


def test_nothing_is_loaded_before_it_is_needed(site: Path, tmp_path: Path) -> None:
    install(site, "broken_codecs", "raise RuntimeError('imported')", "broken = broken_codecs:Codec")
    check_codec_model("broken:")
    assert codec_name("broken:") == "broken"
    assert codec_name("broken:models/big one/") == "broken_big_one"
    assert identity("broken:x") == "broken of broken_codecs 1.5: x"
    long = f"broken:{'x' * 300}"  # no file can have this name
    check_codec_model(long)
    assert identity(long).endswith(f": {'x' * 300}")
    assert codec_name(long, "short") == "short"
    with pytest.raises(UsageError, match="307 characters that would name the codes: give --codec-name"):
        codec_name(long)
    assert "broken_codecs" not in sys.modules
    with pytest.raises(UsageError, match=r"has the codec snack .*; there are: broken"):
        check_codec_model("snack:x")
    with pytest.raises(UsageError, match="--num-codebooks is for codecs of Hugging Face"):
        check_codec_model("broken:", 2)
    with pytest.raises(UsageError, match="--codec-model broken: cannot be loaded: RuntimeError: imported"):
        load_codec("broken:")
    install(site, "other_codecs", CODEC, "broken = other_codecs:Codec")
    with pytest.raises(UsageError, match=r"several packages have the codec broken: broken_codecs 1\.5, other_codecs"):
        check_codec_model("broken:")
    assert not is_plugin("nvidia/codec")
    assert not is_plugin("codec.nemo")


def test_other_weights_are_another_codec(site: Path, tmp_path: Path) -> None:
    install(site, "other_codecs", CODEC, "other = other_codecs:Codec")
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights/a").write_bytes(b"one")
    found = {identity(f"other:{tmp_path}/weights"), identity(f"other:{tmp_path}/weights/a")}
    (tmp_path / "weights/a").write_bytes(b"two")
    found |= {identity(f"other:{tmp_path}/weights"), identity(f"other:{tmp_path}/weights/a")}
    assert len(found) == 4


@pytest.mark.torch
def test_what_a_codec_must_have(site: Path) -> None:
    install(site, "other_codecs", CODEC, "other = other_codecs:Codec")
    for argument, message in (
        ("{'sampling_rate': '16k'}", "sampling_rate of other_codecs 1.5 is '16k', not a positive number"),
        ("{'num_codebooks': 3}", r"gives torch.int64 of shape \(1, 2, 4\), not codes of \(1, 3, 4\)"),
        ("{'codebook_size': 69000}", "gives codes from 0 to 69000, not below its codebook_size"),
        ("{'encode': lambda s, l: torch.ones(1, 2, s.shape[1] // 160)}", "gives torch.float32 of shape"),
        ("{'encode': lambda s, l: torch.ones(1, 2, s.shape[1] // 160, dtype=torch.bool)}", "gives torch.bool of shape"),
        ("{'encode': lambda s, l: {}['x']}", "cannot encode 4 frames of silence: .* has failed: KeyError: 'x'"),
        ("{'encode': None}", "has failed: TypeError: 'NoneType' object is not callable"),
        ("{'encode': lambda s, l: None}", "has failed: RuntimeError: Could not infer dtype of NoneType"),
        ("{'encode': lambda s, l: exit(0)}", "has failed: SystemExit: 0"),
        ("{'encode': lambda s, l: __import__('os')._exit(0)}", r"has failed: SystemExit: os\._exit\(0\)"),
        ("__import__('os')._exit(0)", r"cannot be loaded: SystemExit: os\._exit\(0\)"),
        ("{'num_codebooks': True}", "num_codebooks of other_codecs 1.5 is True, not a positive number"),
        ("{'codebook_size': 1 << 40}", r"codebook_size of other_codecs 1.5 is 1099511627776, above 2\^31"),
        ("exit(0)", "cannot be loaded: SystemExit: 0"),
    ):
        with pytest.raises((UsageError, PrepcliError), match=message):
            load_codec(f"other:{argument}")
    assert type(load_codec("other:{'samples_per_frame': __import__('numpy').prod([16, 10])}").samples_per_frame) is int
    with pytest.raises(UsageError, match=r"cannot be moved to cpu: SystemExit: os\._exit\(cpu\)"):
        load_codec("other:{'to': __import__('os')._exit}").to("cpu")
    one_by_one: Any = load_codec("other:")
    batches: Any = load_codec("other:{'takes_batches': True}")
    rows, lengths = torch.rand(3, 1600), torch.full((3,), 1500)
    found, frames = one_by_one.encode(rows, lengths, "fp32")
    assert frames.tolist() == [10, 10, 10]
    assert torch.equal(found, batches.encode(rows, lengths, "fp32")[0])
    assert (one_by_one._codec.seen[-3:], batches._codec.seen[-1]) == ([1, 1, 1], 3)


@pytest.mark.slow
@pytest.mark.torch
def test_the_documented_codec_is_snac(site: Path, tmp_path: Path) -> None:
    """The code of the documentation gives the codes that SNAC gives one segment alone, in the order that it says."""
    need_package("snac")
    from snac import SNAC

    torch.set_num_threads(1)
    install(site, "my_codecs", documented_codec(), "snac = my_codecs:SnacCodec")
    folder = save_tiny_snac(tmp_path / "tiny")
    out = tmp_path / "out"
    records = [one | {"audio_filepath": str(MINI_CORPUS / one["audio_filepath"])} for one in _records()]
    manifest = write_lines(tmp_path / "manifest.json", records)
    done = prepcli("extend-codec-codes", manifest, "--codec-model", f"snac:{folder}", "--output-dir", out, *DEVICE)
    assert done.code == 0, done.err
    model = SNAC.from_pretrained(str(folder))
    codec = load_codec(f"snac:{folder}")
    assert (codec.samples_per_frame, codec.num_codebooks) == (512, 7)
    used: set[int] = set()
    lines = read_lines(out / "manifest_withAudioCodes_snac_tiny.json")
    assert len(lines) == len(records) > 3
    for line in lines:
        found = torch.load(line["target_audio_codes_path"])
        samples = _samples(line["audio_filepath"], found.shape[1] * 512)
        with torch.inference_mode():
            coarse, middle, fine = (codes[0] for codes in model.encode(samples[None, None]))
        assert found.dtype == torch.int16
        for frame, column in enumerate(found.T.tolist()):
            parts = coarse[frame : frame + 1], middle[2 * frame : 2 * frame + 2], fine[4 * frame : 4 * frame + 4]
            assert column == torch.cat(parts).tolist()
            used |= set(column)
    assert len(used) > 20
    checked = prepcli("verify", out)
    assert checked.code == 0, checked.out


def _records() -> Lines:
    """Those at the rate of the codec."""
    return [one for one in read_lines(MINI_CORPUS / "manifest.json")[::4] if _rate(one["audio_filepath"]) == 22050]


def _rate(name: str) -> int:
    import soundfile

    rate: int = soundfile.info(MINI_CORPUS / name).samplerate
    return rate


DEVICE = ("--devices", "cpu")


def _samples(path: str, length: int) -> torch.Tensor:
    import soundfile

    samples, rate = soundfile.read(path, dtype="float32")
    assert rate == 22050
    return torch.from_numpy(np.pad(samples, (0, length - len(samples))))
