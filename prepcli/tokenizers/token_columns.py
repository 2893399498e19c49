"""Functions that count the tokens of each record, for `prepcli.manifest.parts.Numbers`."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from prepcli.errors import RecordRejected, RejectReason
from prepcli.manifest.fields import decode_value, parse_fields
from prepcli.tokenizers.counting import TokenizerSpec, load_tokenizers


class _Supervision(msgspec.Struct, gc=False):
    text: str | None = None
    language: str | None = None


class _Cut(msgspec.Struct, gc=False):
    supervisions: list[_Supervision]


_cut_decoder = msgspec.json.Decoder(_Cut)


@dataclass(frozen=True)
class TokensOfTexts:
    """Counts the tokens of texts, given the text and the language of each record.

    `lang` is the language of records without a language. `field` is the name of the field with the text, for messages.
    Without `needs_text`, a record without a text has 0 tokens.
    """

    spec: TokenizerSpec
    field: str = "text"
    lang: str | None = None
    needs_text: bool = True

    def __call__(self, texts: Sequence[str | None], langs: Sequence[str | None]) -> list[int]:
        """Return the number of tokens of each record.

        Raises `RecordRejected` for a record that has no text or no tokenizer for its language, and `WordsDiffer` as
        `SentencePieceCounter` does.
        """
        count, langs = load_tokenizers(self.spec).counts, [lang or self.lang for lang in langs]
        present = [text for text in texts if text is not None]
        if len(present) == len(texts):
            return count(present, langs)
        if self.needs_text:
            raise _no_text(self.field)
        counts = iter(count(present, [lang for lang, text in zip(langs, texts, strict=True) if text is not None]))
        return [0 if text is None else next(counts) for text in texts]


@dataclass(frozen=True)
class TokensOfCuts:
    """Counts the tokens of lhotse cuts: the sum over all supervisions with a text, in all tracks of a cut.

    `lang` is the language of supervisions without a language. Without `needs_text`, a cut without a text has 0 tokens.
    """

    spec: TokenizerSpec
    lang: str | None = None
    needs_text: bool = True

    def __call__(self, data: bytes) -> list[int]:
        """Return the number of tokens of each line of `data`; a line is a cut in JSON.

        Raises `RecordRejected` for a cut without a text or without a tokenizer for its language, and `WordsDiffer` as
        `SentencePieceCounter` does. If `data` has several lines, a cut with unusual fields raises
        `msgspec.DecodeError`; alone, it is counted.
        """
        cuts = _supervisions(data)
        if self.needs_text and not all(cuts):
            raise _no_text("text of a supervision")
        flat = [supervision for cut in cuts for supervision in cut]
        counts = iter(
            load_tokenizers(self.spec).counts(
                [item.text or "" for item in flat],
                [item.language or self.lang for item in flat],
            )
        )
        return [sum(next(counts) for _ in cut) for cut in cuts]


def _supervisions(data: bytes) -> list[list[_Supervision]]:
    try:
        cuts = [cut.supervisions for cut in _cut_decoder.decode_lines(data)]
    except msgspec.DecodeError:
        if b"\n" in data.rstrip():
            raise
        try:
            fields = {name: decode_value(raw) for name, raw in parse_fields(data).items()}
            plain = [fields, *(track["cut"] for track in fields.get("tracks") or ())]
            supervisions = [supervision for cut in plain for supervision in cut.get("supervisions") or ()]
            cuts = [msgspec.convert(supervisions, list[_Supervision])]
        except (msgspec.MsgspecError, KeyError, TypeError, AttributeError):
            raise RecordRejected(RejectReason.BAD_FIELD, "the supervisions of the cut cannot be read") from None
    return [[supervision for supervision in cut if supervision.text is not None] for cut in cuts]


def _no_text(name: str) -> RecordRejected:
    return RecordRejected(RejectReason.MISSING_FIELD, f"there is no {name}, so its tokens cannot be counted")
