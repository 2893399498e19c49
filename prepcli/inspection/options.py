"""The options of `inspect`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from prepcli.options import AudioBaseDir, Json, NumWorkers, Option, Progress


@dataclass(frozen=True)
class InspectOptions:
    """What is looked at."""

    audio_base_dir: AudioBaseDir = None
    num_audio_files: Annotated[
        int, Option("Open the headers of so many audio files, evenly spread over the records.", minimum=0)
    ] = 100
    num_workers: NumWorkers = None


@dataclass(frozen=True, kw_only=True)
class Inspect(InspectOptions):
    """Say what a file or directory is, and what is in it: records, hours, rates, codecs, speakers, lengths.

    Reads every line once and the headers of a sample of the audio; decodes nothing and changes nothing.

    Example: prepcli inspect train.json --html train.html
    """

    path: Annotated[
        str,
        Option(
            "A manifest (or several, in any form of INPUT), a tarred set, a Shar or codes directory, cuts, tars, "
            "OUT.prepcli, rejects.jsonl, an audio file.",
            metavar="PATH",
            is_argument=True,
        ),
    ]
    html: Annotated[Path | None, Option("Write a page with plots, to open in a browser.", metavar="FILE")] = None
    as_json: Json = False
    progress: Progress = False
