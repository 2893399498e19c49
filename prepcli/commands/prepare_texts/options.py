"""The options of `prepare-texts`."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from prepcli.engine.run.options import JobOptions
from prepcli.errors import UsageError, option
from prepcli.interface.options import Option
from prepcli.interface.shared_options import OutManifest

AsrText = Literal["as-is", "lower", "plain"]
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_MAX_SPEAKERS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class PrepareTexts(JobOptions):
    """Prepare texts for ASR training with synthetic audio (NeMo's TextToTextDataset).

    INPUT is a file of texts, one per line, or a NeMo manifest. Writes OUT.json with a record per text: text (what the
    ASR model learns to write) and tts_text_normalized or tts_text (what the TTS model reads), and OUT_speakers.txt with
    the numbers of the TTS model's speakers. tts_text and tts_text_normalized of a manifest are kept. NeMo normalizes
    tts_text each time it loads it: use --normalize, or --is-normalized for texts that are normalized already.

    Run the same command again to continue after an interruption.

    Example: prepcli prepare-texts books.txt texts.json --normalize en --speakers 0-99 --asr-text lower
    """

    input: Annotated[
        str,
        Option(
            "Texts or NeMo manifest(s): a path, several separated by commas, or a brace pattern.",
            metavar="INPUT",
            several_paths=True,
            is_argument=True,
            shapes_output=False,
        ),
    ]
    out: OutManifest
    text_field: Annotated[str, Option("Field of a manifest with the text.")] = "text"
    tts_text_field: Annotated[
        str | None,
        Option(
            "Field of a manifest with the text that the TTS model reads. Without --normalize, a text of another field "
            "than tts_text is taken as normalized, such as that of normalized_text.",
            shown_default="tts_text_normalized or tts_text of records that have it, otherwise the text",
        ),
    ] = None
    is_normalized: Annotated[bool, Option("The texts are normalized already (no digits, no abbreviations).")] = False
    normalize: Annotated[
        str | None,
        Option("Normalize with nemo_text_processing, in this language: en, de, ...", metavar="LANG"),
    ] = None
    whitelist: Annotated[
        Path | None,
        Option("With --normalize: table of words and how they are read.", must_exist="file", needs="normalize"),
    ] = None
    asr_text: Annotated[AsrText, Option("Change the ASR text: lower: lower case; plain: also without punctuation.")] = (
        "as-is"
    )
    speakers: Annotated[str, Option("Numbers of speakers of the TTS model: 0-99 or 1,5,7-9.")] = "0"
    num_shards: Annotated[
        int | None,
        Option("Also write so many shards, OUT_shards/OUT_0.json, ..., for NeMo's type txt_jsonl.", minimum=1),
    ] = None

    def speaker_numbers(self) -> list[int]:
        """The numbers that `--speakers` lists.

        Raises:
            UsageError: the value is not a list of numbers and ranges, such as 1,5,7-9.
        """
        numbers: list[int] = []
        for part in self.speakers.split(","):
            found = _RANGE.fullmatch(part.strip())
            first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
            if first > last or last - first >= _MAX_SPEAKERS:
                raise UsageError(
                    f"{option('--speakers')} takes numbers and ranges such as 0-99 or 1,5,7-9, not {self.speakers!r}"
                )
            numbers += range(first, last + 1)
        return list(dict.fromkeys(numbers))

    def check(self) -> None:
        """Check everything that does not depend on the input.

        Raises:
            UsageError: options contradict each other.
        """
        from prepcli.manifest.output_name import check_manifest_name

        self.speaker_numbers()
        if self.is_normalized and self.normalize is not None:
            raise UsageError(
                f"give {option('--is-normalized')} or {option('--normalize')}, not both: normalized texts stay as "
                "they are"
            )
        check_manifest_name(self.out, "prepare-texts", "texts.json")
