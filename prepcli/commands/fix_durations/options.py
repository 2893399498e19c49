"""The options of `fix-durations`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from prepcli.engine.run.options import JobOptions
from prepcli.interface.options import Option
from prepcli.interface.shared_options import AudioBaseDir, ManifestOnly


@dataclass(frozen=True, kw_only=True)
class FixDurations(JobOptions):
    """Measure the durations of a manifest again, and change nothing else.

    Every other field keeps its text byte for byte, and a record whose duration is right keeps its whole line. A record
    with an offset is a segment: its duration changes only if it is missing, or reaches beyond the end of the file. The
    summary says how many durations differed by more than 20 ms, and by how much. Audio that cannot be read is a reject.

    Run the same command again to continue after an interruption.

    Example: prepcli fix-durations old.json fixed.json --audio-base-dir audio/
    """

    manifest: ManifestOnly
    out: Annotated[
        Path, Option("Manifest to write.", metavar="OUT.json", is_argument=True, shapes_output=False, names_file=True)
    ]
    audio_base_dir: AudioBaseDir = None
