"""Recognises the form of a file with times by its content, and decodes it."""

import os
import re
from typing import Literal, get_args

from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.times.rows import RTTM_TYPES

Form = Literal["ctm", "rttm", "srt", "vtt", "textgrid", "json", "audacity", "kaldi"]
FORMS: tuple[Form, ...] = get_args(Form)
_NUMBER = r"-?\d+(?:\.\d+)?"
_CUE_LIKE = re.compile(r"\s*[\d:.,]+\s*-->\s*\d")
"""Matches the times of a cue, even damaged ones."""
_AUDACITY = re.compile(r"-?\d+(?:[.,]\d+)?\t-?\d+(?:[.,]\d+)?(?:\t.*)?")
_CTM = re.compile(rf"\S+\s+\S+\s+{_NUMBER}\s+{_NUMBER}\s+\S.*")
_KALDI = re.compile(rf"\S+\s+\S+\s+{_NUMBER}\s+{_NUMBER}(?:\s+\d+)?\s*")
_CHANNEL = re.compile(r"\S+\s+(?:[0-9]|[A-Ba-b])\s")
_SAMPLE = 200


def decoded(data: bytes, name: str) -> str:
    """The text of a file in UTF-8 or UTF-16, without a byte order mark; each line ends with a line feed.

    `name` is the file, for messages.

    Raises:
        RecordRejected: NOT_UTF8 if it is in another encoding.
    """
    encoding = "utf-8-sig"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif len(data) > 1 and (data[0] == 0) != (data[1] == 0):
        encoding = "utf-16-be" if data[0] == 0 else "utf-16-le"
    try:
        return data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        why = f"{name} is not {'UTF-8' if encoding == 'utf-8-sig' else 'UTF-16'}; convert it: iconv -t UTF-8"
        raise RecordRejected(RejectReason.NOT_UTF8, why) from None


def form_of(head: str, path: str) -> Form | None:
    """The form of a file that begins with `head`; None if it is none of them. `path` decides between two that fit."""
    lines = [line for line in head.splitlines() if line.strip()][:_SAMPLE]
    suffix = os.path.splitext(path)[1].lower()
    if head.startswith("WEBVTT"):
        return "vtt"
    if any('"ooTextFile"' in line or '"TextGrid"' in line for line in lines[:3]):
        return "textgrid"
    if head.lstrip()[:1] in ("{", "["):
        return None if any('"audio_filepath"' in line for line in lines[:3]) else "json"
    if any(map(_CUE_LIKE.match, lines)):
        return "vtt" if suffix == ".vtt" else "srt"
    return _form_of_rows([line for line in lines if not line.startswith(";;")], os.path.basename(path))


def _form_of_rows(lines: list[str], name: str) -> Form | None:
    """The form in which most lines are; damaged ones are rejects of their recordings.

    The first label of Audacity must be one: tables with a header may have other units, such as Whisper's milliseconds.
    """
    labels = [line for line in lines if not line.startswith("\\")]
    segments = sum(_is_segment(line, name) for line in lines)
    counts: dict[Form, int] = {
        "rttm": sum(bool(RTTM_TYPES.fullmatch(line.split(None, 1)[0])) for line in lines),
        "audacity": sum(bool(_AUDACITY.fullmatch(line)) for line in labels if _AUDACITY.fullmatch(labels[0])),
        "kaldi": segments,
        "ctm": sum(bool(_CTM.fullmatch(line)) and not _is_segment(line, name) for line in lines),
    }
    form = max(counts, key=lambda form: counts[form])
    return form if 2 * counts[form] > (len(labels) if form == "audacity" else len(lines)) else None


def _is_segment(line: str, name: str) -> bool:
    """Whether a line is one of Kaldi's segments; with five columns it may be one of a CTM whose word is a number."""
    if not _KALDI.fullmatch(line):
        return False
    return len(line.split()) == 4 or name == "segments" or not (_CHANNEL.match(line) or name.endswith(".ctm"))
