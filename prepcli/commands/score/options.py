"""The options of `score`."""

from dataclasses import dataclass
from typing import Annotated

from prepcli.engine.run.options import JobOptions
from prepcli.errors import UsageError, option
from prepcli.interface.options import Option
from prepcli.interface.shared_options import AudioBaseDir, Channel, Manifest, OutManifest, SetInput

FIELDS = {
    "basic": (
        *("bandwidth", "loudness", "peak_db", "dc", "clipped", "snr", "silence_share", "silence_start", "silence_end"),
        *("equal_channels", "char_rate", "word_rate", "unique_words", "longest_word"),
    ),
    "bandwidth_sdp": ("bandwidth_sdp",),
    "speech": ("speech_share", "speech_start", "speech_end", "speech_segments", "longest_pause"),
    "text": ("text_lang", "text_lang_probability"),
}
"""The fields of each group, in the order of the documentation."""
GROUPS = tuple(FIELDS)


@dataclass(frozen=True, kw_only=True)
class Score(SetInput, JobOptions):
    """Measure the audio and the text of each record, and write the records with the results as fields.

    basic: bandwidth, loudness, peak_db, dc, clipped, snr, silence_share, silence_start, silence_end, equal_channels,
    char_rate, word_rate, unique_words, longest_word. speech: speech_share, speech_start, speech_end, speech_segments,
    longest_pause, by Silero's detector. text: text_lang and text_lang_probability, by py3langid. bandwidth_sdp: the
    bandwidth as NeMo SDP computes it. The documentation defines each field.

    A measure that a record is too short for is null. A field that a record has under one of these names is replaced;
    all others keep their text. Audio that cannot be read is a reject. The result of a record depends on this record
    alone. prepcli filter selects by the fields, and prepcli inspect shows them.

    Run the same command again to continue after an interruption.

    Example: prepcli score train.json scored.json --fields basic
    """

    manifest: Manifest
    out: OutManifest
    fields: Annotated[str, Option("What is measured, between commas: basic, bandwidth_sdp, speech, text.")] = "basic"
    channel: Channel = None
    audio_base_dir: AudioBaseDir = None

    def groups(self) -> list[str]:
        """The groups of fields to write, in the order of the documentation.

        Raises:
            UsageError: a group does not exist, or none is given.
        """
        names = {name.strip() for name in self.fields.split(",") if name.strip()}
        unknown = sorted(names.difference(GROUPS))
        if unknown or not names:
            wrong = f", not {unknown[0]}" if unknown else ""
            raise UsageError(f"{option('--fields')} takes {', '.join(GROUPS)}{wrong}")
        return [name for name in GROUPS if name in names]
