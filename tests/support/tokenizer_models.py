"""Tokenizers trained on the mini corpus, for tests."""

import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MINI_CORPUS


def corpus_texts() -> list[str]:
    """The mini corpus' transcripts: five languages, with accents and capitals."""
    lines = (MINI_CORPUS / "manifest.json").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def train_sentencepiece(path: Path, texts: Sequence[str] | None = None, **settings: Any) -> Path:
    """A small SentencePiece model; skips without the package."""
    sentencepiece = pytest.importorskip("sentencepiece")
    texts = texts or corpus_texts()
    defaults = {"vocab_size": 300, "model_type": "bpe", "hard_vocab_limit": False, "minloglevel": 5}
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*texts, *texts]), model_writer=model, **{**defaults, **settings}
    )
    path.write_bytes(model.getvalue())
    return path


def train_hf(path: Path) -> Path:
    """A small byte-level BPE tokenizer of Hugging Face as `tokenizer.json`; skips without the package."""
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.ByteLevelBPETokenizer()
    model.train_from_iterator(corpus_texts(), vocab_size=400, show_progress=False)
    model.save(str(path))
    return path


def awkward_texts(count: int, seed: int = 0) -> list[str]:
    """Texts with what trips tokenizers: blanks of all kinds, accents put together, full width, unknown characters."""
    rng = random.Random(seed)
    chars = "abc defg  xyz.,\u03a9\u76ee\u0301\u00e9\u200b\u3000\t\u2581\ufb01\uff11 \n<|en|> \U0001f600\ue000'"
    corpus = corpus_texts()
    return [
        "".join(rng.choice(chars) for _ in range(rng.randrange(40)))
        if rng.random() < 0.6
        else " ".join(rng.choices(corpus, k=rng.randrange(3)))
        for _ in range(count)
    ]
