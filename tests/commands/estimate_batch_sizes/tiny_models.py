"""Tiny NeMo models with random weights: a CTC model, an encoder-decoder, and MagpieTTS, as training configs."""

import sys
from pathlib import Path
from typing import Any

import yaml

from tests.support.tokenizer_models import train_sentencepiece

CTC = "nemo.collections.asr.models.EncDecCTCModelBPE"
AED = "nemo.collections.asr.models.EncDecMultiTaskModel"
MAGPIE = "nemo.collections.tts.models.MagpieTTSModel"
SAMPLE_RATE = 16000
HIDDEN = 64
_NEMO = "nemo.collections"


def ctc_config(folder: Path) -> Path:
    """The training config of a small CTC model."""
    decoder = {
        "_target_": "nemo.collections.asr.modules.ConvASRDecoder",
        "feat_in": HIDDEN,
        "num_classes": -1,
        "vocabulary": [],
    }
    tokenizer = _tokenizer(folder / "tokenizer")
    return write_config(folder / "ctc.yaml", {**_recognition(), "tokenizer": tokenizer, "decoder": decoder})


def aed_config(folder: Path) -> Path:
    """The training config of an encoder with a decoder that attends to it, with the prompts of Canary."""
    tokens = ["<pad>", *(f"<|{name}|>" for name in ("endoftext", "startoftranscript", "nospeech", "pnc", "nopnc"))]
    tokenizer = _tokenizer(folder / "tokenizer", user_defined_symbols=tokens)
    tokenizer["custom_tokenizer"] = {"_target_": f"{_NEMO}.common.tokenizers.canary_tokenizer.CanaryBPETokenizer"}
    decoder = {
        "vocab_size": "None",
        "hidden_size": HIDDEN,
        "num_layers": 1,
        "inner_size": 4 * HIDDEN,
        "num_attention_heads": 4,
        "max_sequence_length": 512,
    }
    model = {
        **_recognition(),
        "tokenizer": tokenizer,
        "prompt_format": "canary2",
        "model_defaults": dict.fromkeys(("asr_enc_hidden", "lm_enc_hidden", "lm_dec_hidden"), HIDDEN),
        "transf_decoder": {
            "_target_": f"{_NEMO}.asr.modules.transformer.get_nemo_transformer",
            "encoder": False,
            "config_dict": decoder,
        },
        "head": {
            "_target_": f"{_NEMO}.asr.parts.submodules.token_classifier.TokenClassifier",
            "num_layers": 1,
            "hidden_size": HIDDEN,
            "num_classes": -1,
            "log_softmax": True,
        },
        "loss": {"_target_": f"{_NEMO}.common.losses.smoothed_cross_entropy.SmoothedCrossEntropyLoss"},
    }
    return write_config(folder / "aed.yaml", model)


def _tokenizer(folder: Path, **settings: Any) -> dict[str, Any]:
    folder.mkdir(parents=True)
    train_sentencepiece(folder / "tokenizer.model", vocab_size=128, **settings)
    (folder / "vocab.txt").write_text("".join(f"{number}\n" for number in range(128)), encoding="utf-8")
    return {"dir": str(folder), "type": "bpe"}


def _recognition() -> dict[str, Any]:
    """What models for recognition have in common, up to the encoder."""
    return {
        "sample_rate": SAMPLE_RATE,
        "train_ds": {"manifest_filepath": "???", "batch_size": 1, "sample_rate": SAMPLE_RATE},
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
            "n_layers": 2,
            "d_model": HIDDEN,
            "subsampling": "dw_striding",
            "subsampling_factor": 4,
            "subsampling_conv_channels": 16,
            "n_heads": 4,
            "ff_expansion_factor": 2,
            "conv_kernel_size": 9,
            "self_attention_model": "rel_pos",
        },
        "optim": {"name": "adamw", "lr": 1e-3},
    }


def write_config(path: Path, model: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump({"name": "tiny", "model": model}), encoding="utf-8")
    return path


def magpie_config(folder: Path, codec: Path) -> Path:
    """The training config of a MagpieTTS model on the codes of a codec."""
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
