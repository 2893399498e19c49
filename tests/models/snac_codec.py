"""An installed package with the codec of the documentation, and a tiny SNAC model with random weights."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.lazy import lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

DOCS = Path(__file__).parents[2] / "docs/speech_synthesis.md"


def install(folder: Path, module: str, source: str, entry: str) -> None:
    """Make a distribution with one module and one entry point in a folder of `sys.path`."""
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(f"[prepcli.codecs]\n{entry}\n")


def documented_codec() -> str:
    """The code of the documentation."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    return next(block for block in blocks if "SNAC" in block)


def save_tiny_snac(folder: Path) -> Path:
    """22,050 Hz, 128 samples for the finest codebook; codebooks with 1, 2 and 4 codes a frame."""
    from snac import SNAC

    sizes = {"encoder_dim": 4, "decoder_dim": 32, "codebook_size": 64, "attn_window_size": None}
    rates = {"encoder_rates": [2, 8, 8], "decoder_rates": [8, 8, 2], "vq_strides": [4, 2, 1]}
    config = {"sampling_rate": 22050} | sizes | rates
    torch.manual_seed(4)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    model = SNAC.from_config(folder / "config.json")
    with torch.no_grad():  # without a common direction, the directions that codes stand for differ
        latents = model.encoder(torch.randn(1, 1, 128 * 400) / 10)
        model.encoder.block[-1].bias -= latents[0].mean(1)
        for quantizer in model.quantizer.quantizers:
            quantizer.in_proj.bias.zero_()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder
