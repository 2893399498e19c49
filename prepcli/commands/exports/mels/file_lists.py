"""The file lists of `manifest-to-mels`, of mels and of audio, for each manifest."""

import glob
from collections import Counter
from collections.abc import Sequence
from typing import Any

from prepcli.audio.rates import rates_note
from prepcli.engine.publishing.publish import Marker, UnitWriter, totals
from prepcli.errors import UsageError, option
from prepcli.formats.mels import AUDIO, LIST_NAME, MEL
from prepcli.interface.printing import number_of
from prepcli.jobs.records import stem_of

TEXT, NORMALIZED_TEXT = "text", "normalized_text"
SEGMENTS, MEMBERS, OTHER_AUDIO = "segments", "members", "other_audio"
"""Keys of counts in the markers of units: clips that are segments, and clips in containers, which are not in the list
of audio; and files in this list that WaveGlow cannot read.

Without `--text-field`, the markers also count the clips by the name of the field that has their text.
"""
PART_NAME = "parts/{}.{}.{}"
"""The path of a part of a list: the unit, the number of the manifest, and the kind of the list."""


def stems_of(manifests: Sequence[str]) -> list[str]:
    """The first parts of the names of the lists; raises `UsageError` if two manifests have the same one."""
    stems = [stem_of(path) for path in manifests]
    repeated = [stem for stem, count in Counter(stems).items() if count > 1]
    if repeated:
        raise UsageError(
            f"two manifests have the name {repeated[0]}, and so would their file lists; rename one of them, or "
            "link to it by another name"
        )
    return stems


def list_patterns(stems: Sequence[str]) -> list[str]:
    """The names of the file lists; readers find the mels through them."""
    return [LIST_NAME.format(glob.escape(stem), kind) for stem in stems for kind in (AUDIO, MEL)]


def join_lists(
    stems: Sequence[str], markers: Sequence[Marker], writer: UnitWriter, sampling_rate: int
) -> dict[str, Any]:
    """Join the parts of the file lists of each manifest; returns their paths, and notes on the clips in them."""
    out = writer.workspace.out
    details: dict[str, Any] = {}
    for source, stem in enumerate(stems):
        for kind in (MEL, AUDIO):
            name = LIST_NAME.format(stem, kind)
            parts = ((marker, PART_NAME.format(marker.unit, source, kind)) for marker in markers)
            writer.join(name, (part for marker, part in parts if part in marker.work_files))
            details[f"{stem}_{kind}_text_filelist"] = out / name
    details |= rates_note(
        (marker.extra for marker in markers), "mels", f"the {{}} Hz that {option('--mel-fmax')} needs"
    )
    counts = totals(markers)
    if counts[NORMALIZED_TEXT]:
        details["text_field"] = NORMALIZED_TEXT
        if counts[TEXT]:
            details["text_field"] += f"; {number_of(counts[TEXT], 'record', 'do')} not have it: {TEXT} is listed"
    if counts[SEGMENTS]:
        num_segments = number_of(counts[SEGMENTS], "record", "are")
        details["segments"] = f"{num_segments} parts of files and not in the list of audio"
    if counts[MEMBERS]:
        details["members"] = (
            f"{number_of(counts[MEMBERS], 'record', 'are')} in containers and not in the list of audio, because "
            "WaveGlow reads files; prepcli convert-audio unpacks them"
        )
    if counts[OTHER_AUDIO]:
        details["audio_list"] = (
            f"in the list of audio, {number_of(counts[OTHER_AUDIO], 'file', 'are')} not 16-bit mono WAV at "
            f"{sampling_rate} Hz, which is all that WaveGlow reads"
        )
    return details
