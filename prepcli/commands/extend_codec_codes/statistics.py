"""The statistics of a run, for its summary."""

from collections.abc import Sequence
from typing import Any

from prepcli.audio.rates import rates_note
from prepcli.commands.extend_codec_codes.encoding import BATCHES, COMPARED, DIFFERENT, ENCODED, IN_CODEC, USED, WAITED
from prepcli.engine.publishing.publish import Marker, totals
from prepcli.jobs.model_job import WALL

TELEMETRY = (
    "hours_encoded",
    "real_time_factor",
    "mean_batch_seconds",
    "saved_by_encoding_once",
    "time_in_codec",
    "waited_for_audio",
)


def statistics(markers: Sequence[Marker]) -> dict[str, Any]:
    """Totals of the units' counts: `TELEMETRY` and, with a faster precision, the number of codes that differ."""
    counts = totals(markers)
    wall = max(counts[WALL], 1e-9)
    details: dict[str, Any] = {
        "hours_encoded": round(counts[ENCODED] / 3600, 4),
        "real_time_factor": round(counts[ENCODED] / wall, 1),
        "mean_batch_seconds": round(counts[ENCODED] / max(counts[BATCHES], 1), 1),
        "saved_by_encoding_once": round(1 - counts[ENCODED] / max(counts[USED], 1e-9), 4),
        "time_in_codec": round(counts[IN_CODEC] / wall, 3),
        "waited_for_audio": round(counts[WAITED] / wall, 3),
    }
    if counts[COMPARED]:
        details["codes_unlike_fp32"] = round(counts[DIFFERENT] / counts[COMPARED], 6)
        details["codes_compared"] = int(counts[COMPARED])
    return details | rates_note((marker.extra for marker in markers), "segments", "the codec's {} Hz")
