"""Transcripts in files next to the audio, which differ from it in their suffix (`--text-suffix`)."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from prepcli.audio.opening import open_source
from prepcli.audio.source import refuse
from prepcli.errors import RecordRejected, RejectReason, option
from prepcli.manifest.kinds import utf16_of


def transcript_of(audio: str, suffix: str) -> str:
    """The path of the transcript of an audio file."""
    return os.path.splitext(audio)[0] + suffix


def read_text(path: str) -> str:
    """The transcript in a file, as one line.

    Raises:
        RecordRejected: the file does not exist (MISSING_TRANSCRIPT), is not UTF-8 (NOT_UTF8), or cannot be read.
    """
    try:
        with open_source(path, path) as file:
            data = file.everything()
    except RecordRejected as rejected:
        if rejected.reason is RejectReason.MISSING_AUDIO:
            raise RecordRejected(RejectReason.MISSING_TRANSCRIPT, f"the transcript {path} does not exist") from None
        raise
    except OSError as error:
        refuse(error, path)
    if (encoding := utf16_of(data)) is not None:
        detail = f"the transcript {path} is UTF-16; convert it: iconv -f {encoding} -t UTF-8"
        raise RecordRejected(RejectReason.NOT_UTF8, detail)
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise RecordRejected(RejectReason.NOT_UTF8, f"the transcript {path} is not UTF-8") from None
    if "\0" in text:
        raise RecordRejected(RejectReason.BAD_FIELD, f"the transcript {path} has a NUL character")
    return " ".join(line.strip() for line in text.splitlines()) if "\n" in text else text


def missing_transcripts(audio: Sequence[str], suffix: str) -> str | None:
    """A message if none of the `audio` files has a transcript next to it; else None."""
    tried = [transcript_of(path, suffix) for path in audio]
    if any(map(os.path.exists, tried)):
        return None
    return (
        f"none of the {len(tried)} transcripts looked for exists, such as {tried[0]}; give the suffix of the files "
        f"beside the audio with {option('--text-suffix')}, or a file of all texts with {option('--transcripts')}"
    )


class _Written(msgspec.Struct):
    audio_filepath: str
    text: str = ""


def changed_transcript(part: Path, folder: str, suffix: str) -> str | None:
    """The path of the first transcript that differs from the text of its record; None if no transcript differs.

    Args:
        part: the file with the records of a unit, as JSON lines.
        folder: folder of the manifest, the start of relative paths.
        suffix: suffix of the transcripts, which are next to the audio. A missing transcript counts as unchanged.
    """
    decoder = msgspec.json.Decoder(_Written)
    with part.open("rb") as lines:
        for line in lines:
            record = decoder.decode(line)
            path = transcript_of(os.path.join(folder, record.audio_filepath), suffix)
            try:
                if read_text(path) != record.text:
                    return path
            except RecordRejected as rejected:
                if rejected.reason is not RejectReason.MISSING_TRANSCRIPT:
                    return path
    return None
