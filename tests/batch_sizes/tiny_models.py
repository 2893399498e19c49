"""Tiny NeMo models with random weights: a CTC model, an encoder-decoder, and MagpieTTS, as training configs."""

import sys
from pathlib import Path
from typing import Any

import yaml

from tests.codec_models import save_codec
from tests.tokenizer_models import train_sentencepiece

CTC = "nemo.collections.asr.models.EncDecCTCModelBPE"
MAGPIE = "nemo.collections.tts.models.MagpieTTSModel"
SAMPLE_RATE = 16000


def ctc_config(folder: Path) -> Path:
    """The training config of a CTC model of some 500,000 parameters."""
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir(parents=True)
    train_sentencepiece(tokenizer / "tokenizer.model", vocab_size=128)
    (tokenizer / "vocab.txt").write_text("".join(f"{number}\n" for number in range(128)), encoding="utf-8")
    model: dict[str, Any] = {
        "sample_rate": SAMPLE_RATE,
        "train_ds": {"manifest_filepath": "???", "batch_size": 1, "sample_rate": SAMPLE_RATE},
        "tokenizer": {"dir": str(tokenizer), "type": "bpe"},
        "preprocessor": {
            "_target_": "nemo.collections.asr.modules.AudioToMelSpectrogramPreprocessor",
            "sample_rate": SAMPLE_RATE,
            "features": 16,
            "dither": 0.0,
        },
        "spec_augment": {
            "_target_": "nemo.collections.asr.modules.SpectrogramAugmentation",
            "freq_masks": 2,
            "time_masks": 2,
            "freq_width": 3,
            "time_width": 0.05,
        },
        "encoder": {
            "_target_": "nemo.collections.asr.modules.ConformerEncoder",
            "feat_in": 16,
            "n_layers": 3,
            "d_model": 64,
            "subsampling": "dw_striding",
            "subsampling_factor": 4,
            "subsampling_conv_channels": 16,
            "n_heads": 4,
            "ff_expansion_factor": 2,
            "conv_kernel_size": 9,
            "self_attention_model": "rel_pos",
        },
        "decoder": {
            "_target_": "nemo.collections.asr.modules.ConvASRDecoder",
            "feat_in": 64,
            "num_classes": -1,
            "vocabulary": [],
        },
        "optim": {"name": "adamw", "lr": 1e-3},
    }
    return write_config(folder / "ctc.yaml", model)


def write_config(path: Path, model: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump({"name": "tiny", "model": model}), encoding="utf-8")
    return path


def magpie_config(folder: Path) -> Path:
    """The training config of a MagpieTTS model on codes, with a codec of its own."""
    codec = save_codec(folder / "codec.nemo")
    transformer: dict[str, Any] = {"n_layers": 2, "d_model": 32, "d_ffn": 64, "sa_n_heads": 2, "p_dropout": 0.1}
    tokenizers = "nemo.collections.common.tokenizers.text_to_speech.tts_tokenizers"
    model: dict[str, Any] = {
        "model_type": "decoder_ce",
        "codecmodel_path": str(codec),
        "text_tokenizers": {"english": {"_target_": f"{tokenizers}.EnglishCharsTokenizer"}},
        "embedding_dim": 32,
        "load_cached_codes_if_available": True,
        "context_duration_min": 0.5,
        "context_duration_max": 1.0,
        "prior_scaling_factor": 0.1,
        "prior_scaledown_start_step": 100,
        "prior_end_step": 200,
        "alignment_loss_scale": 0.002,
        "train_ds": None,
        "validation_ds": None,
        "encoder": {**transformer, "kernel_size": 3, "is_causal": True},
        "context_encoder": {**transformer, "n_layers": 1, "kernel_size": 3, "is_causal": False},
        "decoder": {
            **transformer,
            "kernel_size": 1,
            "has_xattn": True,
            "xa_n_heads": 1,
            "xa_d_memory": 32,
            "is_causal": True,
        },
        "optim": {"_target_": "torch.optim.AdamW", "lr": 1e-4},
    }
    return write_config(folder / "magpie.yaml", model)


if __name__ == "__main__":
    print(ctc_config(Path(sys.argv[1])))
