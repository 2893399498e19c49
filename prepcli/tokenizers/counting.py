"""Count tokens with any tokenizer: SentencePiece or Hugging Face, one for all texts or one per language."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.tokenizers.counter import TokenCounter, WordsDiffer
from prepcli.tokenizers.hub import is_hub_name

Found = TypeVar("Found")

WORDS_DIFFER = "words counted one by one gave other numbers than whole texts; so every text was counted as a whole"


@dataclass(frozen=True)
class TokenizerSpec:
    """The tokenizers to use: enough to load them in a worker process.

    `langs` names the language of each, where there are several. `by_word`: words may be counted one by one, where the
    model allows it. `prompt_format` and `prompt` (slots, a list of turns in Python's or JSON's notation) put each text
    into one of NeMo's prompts.
    """

    tokenizers: tuple[str, ...]
    langs: tuple[str, ...] = ()
    by_word: bool = True
    prompt_format: str | None = None
    prompt: str | None = None

    def __post_init__(self) -> None:
        if not self.tokenizers:
            raise UsageError("no tokenizer is named")
        if len(self.tokenizers) > 1 and len(self.langs) != len(self.tokenizers):
            raise UsageError(
                f"{len(self.tokenizers)} tokenizers need as many languages (--langs); there are {len(self.langs)}"
            )
        if len(self.tokenizers) == 1 and len(self.langs) > 1:
            raise UsageError(f"{len(self.langs)} languages (--langs) need as many tokenizers; there is 1")
        if len(set(self.langs)) < len(self.langs):
            raise UsageError(f"--langs names a language twice: {', '.join(self.langs)}")
        if self.prompt is not None and self.prompt_format is None:
            raise UsageError("--prompt goes with a --prompt-format")


def by_word_or_whole(spec: TokenizerSpec, count: Callable[[TokenizerSpec], Found]) -> tuple[Found, list[str]]:
    """The result of `count` for `spec`; if counting word by word is not exact, that for whole texts, and a note."""
    try:
        return count(spec), []
    except WordsDiffer:
        return count(replace(spec, by_word=False)), [WORDS_DIFFER]


class Tokenizers:
    """All tokenizers of a `TokenizerSpec`; each text goes to that of its language."""

    def __init__(self, spec: TokenizerSpec) -> None:
        """Load them; raises `UsageError` for what is not a tokenizer and for a missing package."""
        counters = [_load_one(path, spec.by_word) for path in spec.tokenizers]
        self._only = counters[0] if len(counters) == 1 else None
        self._of_lang = dict(zip(spec.langs, counters, strict=False))

    def counts(self, texts: Sequence[str], langs: Sequence[str | None]) -> list[int]:
        """The number of tokens of each text; `langs` is ignored if there is only one tokenizer.

        Raises `RecordRejected` with MISSING_FIELD or BAD_FIELD for a language without a tokenizer.
        """
        if self._only is not None:
            return self._only.counts(texts)
        counts = [0] * len(texts)
        places: dict[str | None, list[int]] = {}
        for place, lang in enumerate(langs):
            places.setdefault(lang, []).append(place)
        for lang, of_lang in places.items():
            counter = self._of_lang.get(lang) if lang is not None else None
            if counter is None:
                raise self._unknown(lang)
            for place, count in zip(of_lang, counter.counts([texts[place] for place in of_lang]), strict=True):
                counts[place] = count
        return counts

    def _unknown(self, lang: str | None) -> RecordRejected:
        known = ", ".join(self._of_lang)
        if lang is None:
            return RecordRejected(RejectReason.MISSING_FIELD, f"there is no language; there are tokenizers for {known}")
        return RecordRejected(
            RejectReason.BAD_FIELD, f"there is no tokenizer for the language {lang!r}, only for {known}"
        )


@lru_cache
def load_tokenizers(spec: TokenizerSpec) -> Tokenizers:
    """The tokenizers, once per process: a forked worker has those of its parent."""
    return Tokenizers(spec)


def _load_one(path: str, by_word: bool) -> TokenCounter:
    kind, found = kind_of_tokenizer(path)
    if kind == "hf":
        from prepcli.tokenizers.hf import HfCounter

        return HfCounter(found)
    from prepcli.tokenizers.sentencepieces import SentencePieceCounter

    return SentencePieceCounter(found, by_word)


def kind_of_tokenizer(name: str) -> tuple[str, str]:
    """`hf` or `sentencepiece`, and what to load: a file, or the name of a tokenizer on Hugging Face's hub.

    A folder is searched for `tokenizer.json` (Hugging Face) and `tokenizer.model` (SentencePiece; NeMo's folders).
    Raises `UsageError` where there is nothing of the kind.
    """
    path = Path(name)
    if os.path.isdir(name):
        for kind, file in (("hf", "tokenizer.json"), ("sentencepiece", "tokenizer.model")):
            if (path / file).is_file():
                return kind, str(path / file)
        raise UsageError(f"the folder {name} holds no tokenizer: neither tokenizer.json nor tokenizer.model")
    if os.path.exists(name):
        return ("hf" if path.suffix == ".json" else "sentencepiece"), name
    if path.suffix in (".model", ".json", ".spm") or not is_hub_name(name):
        raise UsageError(f"tokenizer not found: {name}; give a .model or tokenizer.json file, or the folder of one")
    return "hf", name
