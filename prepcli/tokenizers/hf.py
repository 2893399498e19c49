"""Tokenizers of Hugging Face: a `tokenizer.json`, or a name on the hub."""

import os
from collections.abc import Sequence

from prepcli.errors import UsageError
from prepcli.tokenizers.counter import refuse_surrogates


class HfCounter:
    """Counts tokens as `Tokenizer.encode(text, add_special_tokens=False)` gives them, without cut or padding."""

    def __init__(self, name: str) -> None:
        """Load a file, or by its name from the hub; raises `UsageError` when that fails and without the package."""
        # Workers are forked, and each has a core: more threads would only make it slower.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise UsageError("Hugging Face tokenizers need a package: pip install 'prepcli[hf]'") from None
        try:
            self._model = Tokenizer.from_file(name) if os.path.isfile(name) else Tokenizer.from_pretrained(name)
        except Exception as error:  # the package raises bare ones
            what = (
                "is not a Hugging Face tokenizer" if os.path.isfile(name) else "is not a file and cannot be downloaded"
            )
            why = " ".join(str(error).split())[:200]
            raise UsageError(f"{name} {what}: {why}") from None
        self._model.no_truncation()
        self._model.no_padding()

    def counts(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text; raises `RecordRejected` for a text with a lone surrogate."""
        try:
            return [len(one.ids) for one in self._model.encode_batch(list(texts), add_special_tokens=False)]
        except (UnicodeEncodeError, TypeError):
            refuse_surrogates(texts)
            raise
