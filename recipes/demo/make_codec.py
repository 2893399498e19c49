"""Makes a NeMo audio codec with random weights, to try things out without a trained codec.

    python recipes/demo/make_codec.py codec.nemo
    python recipes/demo/make_codec.py full.nemo --base-channels 48     # the size of a real one, 57 million parameters

Its frames, codebooks and layers are those of NeMo's low-frame-rate codecs at 22.05 kHz (1024 samples per frame, 8
codebooks of 2016 entries), with fewer channels. Its codes have no meaning: do not train on them.
"""

import argparse
import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parents[2] / "tests/data/mini_corpus"
SAMPLING_RATE = 22050
MODULES = "nemo.collections.tts.modules.audio_codec_modules"
LOSSES = "nemo.collections.tts.losses.audio_codec_loss"


def config(groups: int, levels: Sequence[int], encoder: dict[str, Any]) -> dict[str, Any]:
    """The configuration of the model; parts that only training needs are as small as possible."""
    rates = list(encoder["down_sample_rates"])
    return {
        "sample_rate": SAMPLING_RATE,
        "samples_per_frame": math.prod(rates),
        "train_ds": None,
        "validation_ds": None,
        "loss_resolutions": [[64, 16, 64]],
        "mel_loss_dims": [8],
        "commit_loss_scale": 0.0,
        "generator_loss": {"_target_": f"{LOSSES}.GeneratorSquaredLoss"},
        "discriminator_loss": {"_target_": f"{LOSSES}.DiscriminatorSquaredLoss"},
        "audio_encoder": {"_target_": f"{MODULES}.HiFiGANEncoder", "encoded_dim": groups * len(levels), **encoder},
        "vector_quantizer": {
            "_target_": f"{MODULES}.GroupFiniteScalarQuantizer",
            "num_groups": groups,
            "num_levels_per_group": list(levels),
        },
        "audio_decoder": {
            "_target_": f"{MODULES}.HiFiGANDecoder",
            "input_dim": groups * len(levels),
            "up_sample_rates": rates[::-1],
            "base_channels": 2 ** len(rates),
            "resblock_kernel_sizes": [3],
            "resblock_dilation_sizes": [1],
        },
    }


def make_codec(
    path: Path, audio: Sequence[Any], *, groups: int = 8, levels: Sequence[int] = (8, 7, 6, 6), **encoder: Any
) -> Path:
    """Make the codec and save it as `.nemo`; `encoder` are settings of NeMo's HiFiGANEncoder.

    The outputs of a random encoder vary little, and nearly all codes would be equal. So its last layer is centred and
    scaled to unit variance over `audio`, float32 arrays (n,) at 22.05 kHz.
    """
    import torch
    from nemo.collections.tts.models import AudioCodecModel
    from omegaconf import OmegaConf

    torch.manual_seed(11)
    settings = {"down_sample_rates": [2, 2, 4, 8, 8], "base_channels": 4} | encoder
    model = AudioCodecModel(cfg=OmegaConf.create(config(groups, levels, settings)))
    model.eval()
    with torch.inference_mode():
        raw = torch.cat(
            [
                model.encode_audio(audio=torch.from_numpy(one)[None], audio_len=torch.tensor([len(one)]))[0][0]
                for one in audio
            ],
            dim=1,
        )
    mean, spread = raw.mean(1), raw.std(1)
    last = model.audio_encoder.post_conv.conv
    with torch.no_grad():
        # Weight norm stores the magnitudes of a layer separately from its directions.
        last.parametrizations.weight.original0.div_(spread[:, None, None])
        last.bias.copy_((last.bias - mean) / spread)
    model.save_to(str(path))
    return path


def main() -> None:
    """Make a codec from the command line."""
    import soundfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, metavar="FILE.nemo")
    parser.add_argument("--base-channels", type=int, default=4, help="width of the encoder (default: %(default)s)")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    lines = (CORPUS / "manifest.json").read_text(encoding="utf-8").splitlines()
    files = [CORPUS / json.loads(line)["audio_filepath"] for line in lines[::6]]
    audio = [soundfile.read(file, dtype="float32")[0] for file in files]
    make_codec(options.path, audio, base_channels=options.base_channels)
    print(f"{options.path}: a codec with random weights, for trying out only")


if __name__ == "__main__":
    main()
