"""The options of `find-duplicates`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from prepcli.engine.run.options import JobOptions
from prepcli.errors import UsageError, option
from prepcli.interface.options import Option
from prepcli.interface.shared_options import AudioBaseDir, SetInput

AUDIO, NEAR_AUDIO = "audio", "near-audio"
KINDS = (AUDIO, NEAR_AUDIO, "text", "speaker")


@dataclass(frozen=True, kw_only=True)
class FindDuplicates(SetInput, JobOptions):
    """Find records with the same audio or text, within or between inputs, and speakers that are in several inputs.

    Writes OUT.jsonl with a line per record of a group: the record, with absolute paths, duplicate_by, duplicate_group
    and duplicate_place (0 for the first in the order of the inputs; by near-audio, the longest of the first input).
    prepcli filter --drop-listed takes this file.

    audio: the same samples, rate and channels after decoding, in any lossless format. near-audio: the same recording
    after lossy encoding, with another rate, loudness or length, or as a part of a longer one. text: equal after NFKC,
    in folded case, without punctuation. speaker: the same name in two inputs; with --speaker-model also the same voice
    under two names. --between reports only groups over two inputs, such as leaks of a test set into training, and then
    exits with 1 if there are any.

    Run the same command again to continue after an interruption.

    Example: prepcli find-duplicates test.json train.json leaks.jsonl --by audio,text,speaker --between
    """

    inputs: Annotated[
        tuple[str, ...],
        Option(
            "The inputs; each is one or more manifests as in other commands, or a data set.",
            metavar="INPUT...",
            is_argument=True,
            shapes_output=False,
            takes_address=True,
        ),
    ]
    out: Annotated[
        Path, Option("File to write.", metavar="OUT.jsonl", is_argument=True, shapes_output=False, names_file=True)
    ]
    by: Annotated[str, Option("What is compared, between commas: audio, near-audio, text, speaker.")] = "audio,text"
    between: Annotated[
        bool, Option("Report only groups with records of two inputs or more; exit code 1 if there are any.")
    ] = False
    audio_base_dir: AudioBaseDir = None
    speaker_model: Annotated[
        str | None,
        Option(
            "With --by speaker: names with the same voice are one speaker. titanet_large or another pretrained model "
            "of NeMo, a .nemo file, or resemblyzer.",
            may_be_path=True,
            added_later=True,
        ),
    ] = None
    min_voice_similarity: Annotated[
        float,
        Option(
            "Minimum cosine similarity of two voices, from -1 to 1.",
            minimum=-1,
            maximum=1,
            needs="speaker_model",
            added_later=True,
        ),
    ] = 0.93
    devices: Annotated[
        str, Option("auto (all GPUs, else CPU), cpu, or a number of GPUs.", shapes_output=False, needs="speaker_model")
    ] = "auto"

    def kinds(self) -> list[str]:
        """The kinds of duplicates to find.

        Raises:
            UsageError: a kind does not exist; or `--by`, `--between`, `--speaker-model` and the number of inputs do not
                fit together.
        """
        found = list(dict.fromkeys(name.strip() for name in self.by.split(",") if name.strip()))
        if not found or (unknown := next((name for name in found if name not in KINDS), None)):
            wrong = f", not {unknown}" if found else ""
            raise UsageError(f"{option('--by')} takes {', '.join(KINDS)}{wrong}")
        if self.speaker_model is not None and found != ["speaker"]:
            raise UsageError(
                f"{option('--speaker-model')} compares voices in a run of its own: give {option('--by', 'speaker')}"
            )
        if len(self.inputs) < 2:
            if self.between:
                raise UsageError(f"{option('--between')} needs two inputs or more")
            if "speaker" in found and self.speaker_model is None:
                raise UsageError(
                    f"{option('--by', 'speaker')} needs two inputs or more: it finds names that are in both; "
                    f"or {option('--speaker-model')}, to find the same voice under two names"
                )
        return found
