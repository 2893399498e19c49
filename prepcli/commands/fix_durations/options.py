"""The options of `fix-durations`."""

from dataclasses import dataclass

from prepcli.engine.run.options import JobOptions
from prepcli.interface.shared_options import AudioBaseDir, ManifestOnly, OutManifest


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
    out: OutManifest
    audio_base_dir: AudioBaseDir = None
