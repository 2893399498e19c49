"""The speaker of a record, and the form of speakers that Magpie-TTS requires."""

import re
from collections.abc import Iterable
from functools import lru_cache

from prepcli.errors import RecordRejected, option
from prepcli.manifest.fields import decode_value
from prepcli.manifest.record import Record

# As check_speaker_format in NeMo's text_to_speech_dataset_lhotse.py, which refuses all other forms.
_SPEAKER = re.compile(r"\| Language:(\w+) Dataset:[\w\W]+ Speaker:[\w\W]+ \|")


def speaker_of(record: Record) -> str | None:
    """The speaker of a record as text; None if it is missing or null. An integer is converted to text.

    Raises:
        RecordRejected: BAD_FIELD if the speaker is neither text nor an integer.
    """
    raw = record.fields.get("speaker")
    if raw is not None and type(decode_value(raw)) is int:
        return str(decode_value(raw))  # NeMo's FastPitch manifests number their speakers
    return record.text("speaker")


@lru_cache(maxsize=4096)
def language_of(speaker: str) -> str | None:
    """The language in a speaker of the form `| Language:xx Dataset:yy Speaker:zz |`; None for any other form."""
    match = _SPEAKER.match(speaker)
    return match[1] if match else None


def notes_on_speakers(sample: Iterable[Record]) -> list[str]:
    """Return a note for the plan if any speaker in a sample of records has a form that Magpie-TTS refuses, else [].

    Records without a speaker are ignored.
    """
    for record in sample:
        try:
            speaker = speaker_of(record)
        except RecordRejected:
            continue
        if speaker and language_of(speaker) is None:
            return [
                f"speakers such as {speaker!r} do not have the form '| Language:xx Dataset:yy Speaker:zz |' that "
                "Magpie-TTS requires; for Magpie-TTS, run recipes/magpietts/prepare_manifest.py with --language and "
                f"{option('--dataset')} on the manifest first"
            ]
    return []
