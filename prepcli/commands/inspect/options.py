"""The options of `inspect`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from prepcli.interface.options import Option
from prepcli.interface.shared_options import AudioBaseDir, Json, NumWorkers, Progress


@dataclass(frozen=True, kw_only=True)
class Inspect:
    """Show what a file or directory is and what it contains: records, hours, rates, codecs, speakers, lengths.

    Reads every line once, and the headers of a sample of the audio files. Nothing is changed. Nothing is decoded,
    except a few records for the page of --html.

    Example: prepcli inspect train.json --html train.html
    """

    audio_base_dir: AudioBaseDir = None
    path: Annotated[
        str,
        Option(
            "One or more manifests (in any form that estimate-bins takes), a tarred set, a Shar or codes directory, "
            "cuts, tars, an export, OUT.prepcli, rejects.jsonl, or an audio file.",
            metavar="PATH",
            several_paths=True,
            is_argument=True,
            takes_address=True,
        ),
    ]
    record: Annotated[
        int | None,
        Option(
            "Show only this record (from 0) and the header of its audio. In a set with indexes it is found "
            "without reading the rest.",
            metavar="N",
            minimum=0,
            disables=("html", "csv", "num_audio_files", "num_workers"),
        ),
    ] = None
    html: Annotated[
        Path | None,
        Option(
            "Write a page with plots, and some audio to listen to; open it in a browser.",
            metavar="FILE",
            names_file=True,
        ),
    ] = None
    csv: Annotated[
        Path | None,
        Option("Write the records and hours of each speaker in each language.", metavar="FILE.csv", names_file=True),
    ] = None
    as_json: Json = False
    progress: Progress = False
    num_audio_files: Annotated[
        int, Option("Number of audio files whose headers are read, evenly spread over the records.", minimum=0)
    ] = 100
    num_workers: NumWorkers = None
