"""Tokenizers of Hugging Face: a `tokenizer.json`, or a name on the hub."""

import os
import textwrap
from collections.abc import Sequence

from prepcli.errors import UsageError
from prepcli.interface.calls import set_environ_default
from prepcli.tokenizers.counter import refuse_surrogates


class HfCounter:
    """Counts tokens as `Tokenizer.encode(text, add_special_tokens=False)` gives them, without cut or padding."""

    def __init__(self, name: str) -> None:
        """Load a file, or by its name from the hub; raises `UsageError` if that fails and without the package."""
        # Workers are forked, one per core: more threads would only make them slower.
        set_environ_default("TOKENIZERS_PARALLELISM", "false")
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise UsageError("Hugging Face tokenizers need a package: pip install 'prepcli[hf]'") from None
        from prepcli.tokenizers.hub import tokenizer_file

        path = name if os.path.isfile(name) else tokenizer_file(name)
        try:
            self._model = Tokenizer.from_file(path)
        except Exception as error:  # the package raises bare ones
            why = textwrap.shorten(str(error), 300, placeholder=" …")
            raise UsageError(f"{path} is not a Hugging Face tokenizer: {why}") from None
        self._model.no_truncation()
        self._model.no_padding()

    def counts(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text; raises `RecordRejected` for a text with a lone surrogate."""
        try:
            return [len(one.ids) for one in self._model.encode_batch(list(texts), add_special_tokens=False)]
        except (UnicodeEncodeError, TypeError):
            refuse_surrogates(texts)
            raise
