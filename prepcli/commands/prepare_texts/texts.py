"""The text that ASR learns to write, and the text that a TTS model reads, of each line of the input."""

import importlib.util
import logging
import re
from collections.abc import Callable
from functools import partial

import msgspec

from prepcli.errors import RecordRejected, RejectReason, UsageError, naming, option
from prepcli.interface.options import PathText
from prepcli.manifest.fields import decode_line, decode_value, parse_fields
from prepcli.manifest.foreign import check_is_json_lines, check_is_text
from prepcli.manifest.json_kinds import PAIRS
from prepcli.manifest.sources import open_bytes

Normalize = Callable[[str], str]
TTS_TEXT, TTS_TEXT_NORMALIZED = "tts_text", "tts_text_normalized"
_NOT_PLAIN = re.compile(r"[^\w\s']|_")


def check_installed(lang: str | None) -> None:
    """Check that nemo_text_processing is installed, without importing it; if `lang` is None, it is not needed.

    Raises:
        UsageError: the package is not installed.
    """
    if lang is not None and importlib.util.find_spec("nemo_text_processing") is None:
        raise UsageError(
            f"{option('--normalize')} needs nemo_text_processing, which is not installed: pip install "
            f"nemo_text_processing (with pynini); or normalize elsewhere and give {option('--is-normalized')} or "
            f"{option('--tts-text-field')}"
        )


def load_normalizer(lang: str, whitelist: PathText | None) -> Normalize:
    """Return a function that normalizes a text as NeMo's hybrid ASR-TTS training does.

    Raises:
        UsageError: the package is missing, or does not know the language.
    """
    check_installed(lang)
    # A filter, because the package sets the level of its logger to INFO again and again.
    logging.getLogger("NeMo-text-processing").addFilter(_is_warning)
    from nemo_text_processing.text_normalization.normalize import Normalizer

    try:
        normalizer = Normalizer(input_case="cased", lang=lang, whitelist=str(whitelist) if whitelist else None)
    except Exception as error:  # the grammars of each language raise different errors
        raise UsageError(
            f"{option('--normalize', lang)}: nemo_text_processing cannot load its grammars: {error}"
        ) from None
    return partial(normalizer.normalize, verbose=False, punct_pre_process=True, punct_post_process=True)


def _is_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING


class Texts:
    """Makes the fields of a record from a line.

    Attributes:
        normalize: normalizes the text for TTS; None: no text is normalized here.
    """

    def __init__(self, text_field: str, tts_text_field: str | None, asr_text: str, is_normalized: bool) -> None:
        """The arguments are the options of these names."""
        self._text_field, self._tts_text_field = text_field, tts_text_field
        self._asr_text, self._is_normalized = asr_text, is_normalized
        self.normalize: Normalize | None = None

    def of_text(self, line: bytes) -> dict[str, str]:
        """The fields for a line of text; raises `RecordRejected` if the line is empty, or not UTF-8."""
        text = decode_line(line).strip()
        return self._texts(text, text)

    def of_record(self, line: bytes) -> dict[str, str]:
        """The fields for a line of a manifest; raises `RecordRejected` if the line has no text."""
        fields = parse_fields(line)
        text, name = _text(fields, self._text_field), self._tts_text_field
        if name is not None:
            return self._texts(text, _text(fields, name), name != TTS_TEXT and self.normalize is None)
        names = [name for name in (TTS_TEXT_NORMALIZED, TTS_TEXT) if bytes(fields.get(name, b"null")) != b"null"]
        tts_text = _text(fields, names[0]) if names else text
        return self._texts(text, tts_text, names[:1] == [TTS_TEXT_NORMALIZED])

    def _texts(self, text: str, tts_text: str, is_normalized: bool = False) -> dict[str, str]:
        """The fields of a record: the text that ASR learns to write, and the text that TTS reads.

        `is_normalized`: whether `tts_text` is normalized already. Raises `RecordRejected` if a text is empty.
        """
        asr = text
        if self._asr_text != "as-is":
            asr = asr.lower()
        if self._asr_text == "plain":
            asr = " ".join(_NOT_PLAIN.sub(" ", asr.replace("\u2019", "'")).split())
        if not asr:
            raise RecordRejected(RejectReason.EMPTY_TEXT, "there is no text to learn")
        if self.normalize is not None and not is_normalized:
            tts_text, is_normalized = self.normalize(tts_text), True
        if not tts_text.strip():
            raise RecordRejected(RejectReason.EMPTY_TEXT, "there is no text to read")
        return {"text": asr, TTS_TEXT_NORMALIZED if is_normalized or self._is_normalized else TTS_TEXT: tts_text}


def _text(fields: dict[str, msgspec.Raw], name: str) -> str:
    value = decode_value(fields[name]) if name in fields else None
    if value is None:
        raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no {name}")
    if not isinstance(value, str):
        raise RecordRejected(RejectReason.BAD_FIELD, f"{name} must be text")
    return value.strip()


def has_records(path: str, tts_text_field: str | None) -> bool:
    """Whether a file is a manifest of records, not a file of texts: its first line begins like a JSON object.

    Raises:
        UsageError: the file is neither, or it is a file of texts, and `tts_text_field` names a field.
    """
    with naming(path), open_bytes(path) as file:
        is_manifest = file.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"
    if is_manifest:
        check_is_json_lines(path, (PAIRS,))
        return True
    check_is_text(path)
    if tts_text_field is not None:
        raise UsageError(f"{option('--tts-text-field')} is for manifests, and {path} is a file of texts")
    return False
