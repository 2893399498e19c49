"""Lines of a manifest in, the number of tokens of each out: what `Columns.numbers` takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from prepcli.errors import RecordRejected, RejectReason
from prepcli.manifest.fields import decode_value, parse_fields, shown
from prepcli.tokenizers.counting import TokenizerSpec, load_tokenizers


class _Supervision(msgspec.Struct, gc=False):
    text: str | None = None
    language: str | None = None


class _Cut(msgspec.Struct, gc=False):
    supervisions: list[_Supervision]


_cut_decoder = msgspec.json.Decoder(_Cut)


@dataclass(frozen=True)
class TokensOfLines:
    """Counts the tokens of the text of each line; a module-level callable with equality, to be sent to workers.

    `lang` stands in for the language of a record that has none.
    """

    spec: TokenizerSpec
    text_field: str = "text"
    lang_field: str = "lang"
    lang: str | None = None
    cuts: bool = False
    """The lines are lhotse cuts: the texts and languages are those of their supervisions, whatever the fields."""

    def __call__(self, data: bytes) -> list[int]:
        """One number a line of `data`, all of them objects in JSON.

        Raises `RecordRejected` for a line that has no text or no tokenizer for its language, `WordsDiffer` as
        `SentencePieceCounter` does, and what msgspec raises for several lines one of which wants a closer look.
        """
        if self.cuts:
            return self._of_cuts(data)
        try:
            rows = _text_decoder(self.text_field, self.lang_field).decode_lines(data)
            texts = [row.text for row in rows]
            langs = [row.lang or self.lang for row in rows]
        except msgspec.DecodeError:
            if b"\n" in data.rstrip():
                raise
            fields = parse_fields(data)
            texts = [_text(fields, self.text_field)]
            langs = [_text(fields, self.lang_field) or self.lang]
        if None in texts:
            raise _no_text(self.text_field)
        return load_tokenizers(self.spec).counts(texts, langs)

    def _of_cuts(self, data: bytes) -> list[int]:
        """Of each cut the sum over its supervisions that have a text; of a mixed one, over those of all tracks."""
        cuts = _supervisions(data)
        if not all(cuts):
            raise _no_text("text of a supervision")
        flat = [supervision for cut in cuts for supervision in cut]
        counts = iter(
            load_tokenizers(self.spec).counts(
                [one.text or "" for one in flat],
                [one.language or self.lang for one in flat],
            )
        )
        return [sum(next(counts) for _ in cut) for cut in cuts]


@lru_cache
def _text_decoder(text_field: str, lang_field: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(
        msgspec.defstruct(
            "_TextLine",
            [
                ("text", str | None, msgspec.field(name=text_field, default=None)),
                ("lang", str | None, msgspec.field(name=lang_field, default=None)),
            ],
            gc=False,
        )
    )


def _supervisions(data: bytes) -> list[list[_Supervision]]:
    try:
        cuts = [cut.supervisions for cut in _cut_decoder.decode_lines(data)]
    except msgspec.DecodeError:
        if b"\n" in data.rstrip():
            raise
        try:
            fields = msgspec.json.decode(data, type=dict[str, Any])
            plain = [fields, *(track["cut"] for track in fields.get("tracks") or ())]
            found = [one for cut in plain for one in cut.get("supervisions") or ()]
            cuts = [msgspec.convert(found, list[_Supervision])]
        except (msgspec.MsgspecError, KeyError, TypeError, AttributeError):
            raise RecordRejected(RejectReason.BAD_FIELD, "the supervisions of the cut cannot be read") from None
    return [[one for one in cut if one.text is not None] for cut in cuts]


def _text(fields: Mapping[str, msgspec.Raw], name: str) -> str | None:
    value = decode_value(fields[name]) if name in fields else None
    if value is None or isinstance(value, str):
        return value
    raise RecordRejected(RejectReason.BAD_FIELD, f"{name} is {shown(fields[name])}; it must be text")


def _no_text(name: str) -> RecordRejected:
    return RecordRejected(RejectReason.MISSING_FIELD, f"there is no {name}, so its tokens cannot be counted")
