"""Models with random weights, audio, and commands for `gpu.py`: nothing is fetched."""

import importlib
import itertools
import json
import multiprocessing
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from gpu_report import Bench
from numpy.typing import NDArray

from prepcli.models.protocols import Codec, SpeakerEncoder

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests/data/mini_corpus"
REAL_SIZE: dict[str, Any] = {"base_channels": 24, "pad_mode": "replicate"}
"""With the rates 2, 2, 4, 8, 8 of `make_codec` the encoder of a published codec: 22 kHz, 21.5 frames a second."""
_SMALL_BLOCKS = {"resblock_kernel_sizes": [3], "resblock_dilation_sizes": [1, 3]}
FORKS = "PREPCLI_BENCHMARK_FORKS"
"""Environment variable: a file to which each forked worker of a command adds 2 if it has inherited CUDA from PyTorch,
1 if it has inherited open files of the driver, and else 0."""
Samples = NDArray[np.float32]


HOURS = 8
"""Hours of the corpus on a GPU; the speed of the first hour does not count."""


def mini_corpus(rate: int, count: int, seconds: float = 60.0) -> list[Samples]:
    """Utterances of the mini corpus, float32 at `rate`; of each at most its first `seconds`."""
    import soundfile

    from prepcli.audio.resample import resample

    lines = (CORPUS / "manifest.json").read_text(encoding="utf-8").splitlines()[:count]
    read = [soundfile.read(CORPUS / json.loads(line)["audio_filepath"], dtype="float32") for line in lines]
    return [resample(samples, own, rate)[: int(seconds * rate)] for samples, own in read]


def codec_file(bench: Bench) -> Path:
    """A codec as a `.nemo` file: on a GPU of real size, 31 million parameters in the encoder."""
    from prepcli.models.nemo import quiet
    from recipes.demo.make_codec import SAMPLING_RATE, make_codec

    path = bench.work / "codec.nemo"
    if not path.exists():
        small: dict[str, Any] = {"down_sample_rates": [4, 8, 8], "pad_mode": "replicate", **_SMALL_BLOCKS}
        with quiet():
            if bench.is_dry:
                make_codec(path, mini_corpus(SAMPLING_RATE, 3, 2.0), **small)
            else:
                make_codec(path, mini_corpus(SAMPLING_RATE, 6), **REAL_SIZE)
    return path


def load_codec(bench: Bench, device: str) -> Codec:
    """The codec, on a device."""
    from prepcli.models.codecs import load_codec as load

    codec = load(str(codec_file(bench)))
    codec.to(device)
    return codec


def speaker_file(bench: Bench) -> Path:
    """A speaker model with the layers of TitaNet-large as a `.nemo` file; narrower in a dry run."""
    from prepcli.models.nemo import quiet

    path = bench.work / "speaker.nemo"
    if not path.exists():
        with quiet():
            import torch
            from nemo.collections.asr.models import EncDecSpeakerLabelModel
            from omegaconf import OmegaConf

            torch.manual_seed(5)
            model = EncDecSpeakerLabelModel(cfg=OmegaConf.create(titanet(32 if bench.is_dry else 1024)))
            model.eval()
            model.save_to(str(path))
    return path


def titanet(width: int) -> dict[str, Any]:
    """The configuration of a model with the layers of TitaNet-large, whose inner ones have `width` channels."""

    def block(filters: int, kernel: int, repeat: int, residual: bool) -> dict[str, Any]:
        sizes = {"filters": filters, "kernel": [kernel], "repeat": repeat, "residual": residual}
        return sizes | {
            "stride": [1],
            "dilation": [1],
            "dropout": 0.0,
            "separable": True,
            "se": True,
            "se_context_size": -1,
        }

    inner = [block(width, kernel, 3, True) for kernel in (7, 11, 15)]
    modules = "nemo.collections.asr.modules"
    front_end = {"window_size": 0.025, "window_stride": 0.01, "window": "hann", "features": 80, "n_fft": 512}
    return {
        "sample_rate": 16000,
        "train_ds": None,
        "validation_ds": None,
        "preprocessor": {
            "_target_": f"{modules}.AudioToMelSpectrogramPreprocessor",
            "sample_rate": 16000,
            "normalize": "per_feature",
            "frame_splicing": 1,
            "dither": 1e-5,
            **front_end,
        },
        "encoder": {
            "_target_": f"{modules}.ConvASREncoder",
            "feat_in": 80,
            "activation": "relu",
            "conv_mask": True,
            "jasper": [block(width, 3, 1, False), *inner, block(3 * width, 1, 1, False)],
        },
        "decoder": {
            "_target_": f"{modules}.SpeakerDecoder",
            "feat_in": 3 * width,
            "num_classes": 8,
            "pool_mode": "attention",
            "emb_sizes": [192],
            "attention_channels": 128,
        },
        "optim": {"name": "sgd", "lr": 0.1},
    }


def load_speaker(bench: Bench, device: str) -> SpeakerEncoder:
    """The speaker model, on a device."""
    from prepcli.models.speakers import load_speaker_encoder

    encoder = load_speaker_encoder(str(speaker_file(bench)))
    encoder.to(device)
    return encoder


def corpus(bench: Bench) -> Path:
    """A manifest of synthetic FLAC files as long as speech is (6.3 s on average), half of them at 44.1 kHz.

    On a GPU `HOURS` hours, with as many voices, so that both commands have a unit for each hour.
    """
    return _make_corpus(bench.work, 0.01 if bench.is_dry else HOURS, 2 if bench.is_dry else HOURS)


@cache
def _make_corpus(out: Path, hours: float, num_voices: int) -> Path:
    folder = out / "audio"
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(7)
    durations: list[float] = []
    while sum(durations) < hours * 3600:
        durations.append(round(float(np.clip(random.lognormal(np.log(5.2), 0.62), 0.6, 30)), 2))
    tasks = [(str(folder / f"{number}.flac"), seconds, number) for number, seconds in enumerate(durations)]
    with multiprocessing.get_context("fork").Pool(min(16, os.cpu_count() or 1)) as pool:
        pool.starmap(_write_file, tasks, chunksize=8)
    manifest = folder / "manifest.json"
    lines = [
        json.dumps({"audio_filepath": path, "duration": seconds, "text": f"text {number}", "speaker": f"s{voice}"})
        for (path, seconds, number), voice in zip(tasks, itertools.cycle(range(num_voices)), strict=False)
    ]
    manifest.write_text("".join(f"{line}\n" for line in lines))
    return manifest


def _write_file(path: str, seconds: float, seed: int) -> None:
    import soundfile

    random = np.random.default_rng(seed)
    rate = 44100 if seed % 2 else 22050
    count = round(seconds * rate)
    loudness = 0.02 + 0.1 * np.abs(np.sin(np.arange(count) * (3 + seed % 5) / rate))
    soundfile.write(path, random.standard_normal(count, np.float32) * loudness.astype(np.float32), rate)


def run_here(words: list[str]) -> None:
    """Run the command line in this process, which ends; notes in each fork whether it has inherited CUDA."""
    if FORKS in os.environ:
        os.register_at_fork(after_in_child=_note_fork)
    sys.argv = ["prepcli", *words]
    from prepcli.cli.app import main

    main()


def _note_fork() -> None:
    """Note whether PyTorch has initialized CUDA, or anything else has opened a GPU: NeMo's import asks the driver."""
    torch = sys.modules.get("torch")
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    opened = [os.readlink(link) for link in links if os.path.islink(link)]
    has_cuda = torch is not None and torch.cuda.is_initialized()
    with Path(os.environ[FORKS]).open("a") as file:
        file.write("2" if has_cuda else "1" if any(path.startswith("/dev/nvidia") for path in opened) else "0")


class Command:
    """A command in a process of its own: a new one, or in a dry run a fork that has NeMo already."""

    def __init__(self, bench: Bench, *words: object, forks: Path | None = None) -> None:
        self._text = [str(word) for word in words]
        environ = os.environ | ({FORKS: str(forks)} if forks else {})
        self._output = bench.work / "command.txt"
        self._process: Any
        if bench.is_dry:
            _import_commands()
            self._process = multiprocessing.get_context("fork").Process(
                target=_in_fork, args=(self._text, environ, self._output)
            )
            self._process.start()
        else:
            code = f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'benchmarks')]!r}; import gpu_models; "
            code += f"gpu_models.run_here({self._text!r})"
            with self._output.open("w") as file:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", code], env=environ, stdout=file, stderr=subprocess.STDOUT
                )

    @property
    def pid(self) -> int:
        """Of the process."""
        return int(self._process.pid)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        if isinstance(self._process, subprocess.Popen):
            return self._process.poll() is None
        return bool(self._process.is_alive())

    def wait(self) -> int:
        """Its exit code."""
        if isinstance(self._process, subprocess.Popen):
            return self._process.wait()
        self._process.join()
        return int(self._process.exitcode)

    def checked(self) -> None:
        """Wait for it; raises `RuntimeError` if it fails."""
        code = self.wait()
        if code:
            raise RuntimeError(f"{' '.join(self._text)}: exit code {code}: {self._output.read_text()[-500:]}")


@cache
def _import_commands() -> None:
    """Import what forks need, or each would do so."""
    used = (
        "manifest_to_shar.shards",
        "extend_codec_codes.shar_codes",
        "extend_context_audio.job",
        "exports.mels.on_device",
    )
    for module in used:
        importlib.import_module(f"prepcli.commands.{module}")
    importlib.import_module("prepcli.cli.app")


def _in_fork(words: list[str], environ: dict[str, str], output: Path) -> None:
    os.environ.update(environ)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)
    run_here(words)
