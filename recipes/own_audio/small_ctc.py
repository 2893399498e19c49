"""Write the training config of a small CTC model for NeMo, with a tokenizer of your texts: to try things out.

    python recipes/own_audio/small_ctc.py own.json mix.yaml model

reads the texts of the manifest own.json, and writes model/tokenizer/ and model/train.yaml, whose `train_ds` reads
mix.yaml. For real training, take one of NeMo's configs.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

SAMPLE_RATE = 16000
VOCABULARY = 128
"""Number of word pieces: fewer where the texts have fewer, more where their characters alone fill half of it."""


def train_tokenizer(texts: list[str], folder: Path) -> None:
    """Write a SentencePiece model and its vocabulary as NeMo reads them."""
    import sentencepiece

    folder.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=max(VOCABULARY, 2 * len(set("".join(texts)))),
        character_coverage=1.0,
        model_type="bpe",
        hard_vocab_limit=False,
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    words = [pieces.id_to_piece(number) for number in range(1, len(pieces))]
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")


def model_config(input_cfg: Path, tokenizer: Path) -> dict[str, Any]:
    """The section `model` of a FastConformer of 3 layers, some 600,000 parameters."""
    return {
        "sample_rate": SAMPLE_RATE,
        "train_ds": {
            "use_lhotse": True,
            "input_cfg": str(input_cfg),
            "sample_rate": SAMPLE_RATE,
            "shuffle": True,
            "num_workers": 2,
        },
        "tokenizer": {"dir": str(tokenizer), "type": "bpe"},
        "preprocessor": {
            "_target_": "nemo.collections.asr.modules.AudioToMelSpectrogramPreprocessor",
            "sample_rate": SAMPLE_RATE,
            "features": 64,
        },
        "encoder": {
            "_target_": "nemo.collections.asr.modules.ConformerEncoder",
            "feat_in": 64,
            "n_layers": 3,
            "d_model": 64,
            "n_heads": 4,
            "subsampling": "dw_striding",
            "subsampling_factor": 8,
            "subsampling_conv_channels": 32,
            "conv_kernel_size": 9,
        },
        "decoder": {
            "_target_": "nemo.collections.asr.modules.ConvASRDecoder",
            "feat_in": 64,
            "num_classes": -1,
            "vocabulary": [],
        },
        "optim": {"name": "adamw", "lr": 1e-3},
    }


def main() -> None:
    """Read the arguments, and write tokenizer and config."""
    if len(sys.argv) != 4:
        sys.exit("usage: python recipes/own_audio/small_ctc.py MANIFEST INPUT_CFG FOLDER")
    manifest, input_cfg, folder = map(Path, sys.argv[1:])
    with manifest.open(encoding="utf-8") as lines:
        texts = [text for line in lines if (text := json.loads(line).get("text"))]
    if not texts:
        sys.exit(f"{manifest}: no record has a text, and a tokenizer is made of texts")
    tokenizer = folder.absolute() / "tokenizer"
    train_tokenizer(texts, tokenizer)
    config = folder / "train.yaml"
    text = yaml.safe_dump({"model": model_config(input_cfg.absolute(), tokenizer)}, sort_keys=False)
    config.write_text("# A small CTC model, for trying out only.\n" + text, encoding="utf-8")
    print(f"{config}: config of a small CTC model, for trying out only")


if __name__ == "__main__":
    main()
