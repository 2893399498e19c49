"""lhotse cuts and recordings whose audio is one file."""

from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

from prepcli.commands.make_manifest.entries import Entry, rejected_entry
from prepcli.commands.make_manifest.source import text_lines
from prepcli.errors import RecordRejected, RejectReason


def entries_of_cuts(path: str) -> Iterator[Entry]:
    """The cuts (or recordings) of a `.jsonl` file, in order."""
    for number, line in text_lines(path):
        try:
            cut = msgspec.json.decode(line.encode("utf-8", "surrogateescape"), type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            yield rejected_entry(RejectReason.BROKEN_JSON, f"broken JSON: {error}", number, line)
            continue
        try:
            yield _entry(cut, number)
        except RecordRejected as rejected:
            yield rejected_entry(rejected.reason, rejected.detail, number, line)
        except (KeyError, TypeError, ValueError, AttributeError):
            yield rejected_entry(RejectReason.BAD_FIELD, "it is not a cut or a recording of lhotse", number, line)


def _entry(cut: dict[str, Any], number: int) -> Entry:
    id = str(cut["id"])
    if "sources" in cut:
        return Entry(_file_of(cut), number, id, {"id": id})
    kind = cut.get("type")
    if kind != "MonoCut":
        _refuse(f"it is a {kind}; only cuts of one channel of one recording (MonoCut) name a part of one file")
    recording = cut.get("recording")
    if not isinstance(recording, dict):
        _refuse("the cut has no recording")
    path = _file_of(recording)
    supervisions = cut.get("supervisions") or []
    if len(supervisions) > 1:
        _refuse(f"the cut has {len(supervisions)} supervisions; cut it with lhotse's trim_to_supervisions first")
    start, duration = float(cut["start"]), float(cut["duration"])
    is_whole = start == 0 and abs(duration - float(recording["duration"])) < 1e-3
    # A Shar that was made of a manifest keeps the id of the manifest in `custom`.
    fields = {"id": id} | (_fields(supervisions[0]) if supervisions else {})
    if is_whole:
        return Entry(path, number, id, fields)
    if not 0 <= start < float("inf") or not 0 < duration < float("inf"):
        raise RecordRejected(RejectReason.BAD_OFFSET, f"the cut begins at {start} s and lasts {duration} s")
    return Entry(path, number, id, fields, start, duration)


def _file_of(recording: dict[str, Any]) -> str:
    sources = recording["sources"]
    if len(sources) != 1:
        _refuse(f"its recording has {len(sources)} sources; it must be one file")
    source = sources[0]
    if source["type"] != "file":
        _refuse(f"its recording is of type {source['type']}, not a file; save the audio first")
    if recording.get("transforms"):
        _refuse("its recording has transforms (resampling, speed, ...); save the audio first")
    if len(source.get("channels", [0])) > 1:
        _refuse(f"its file has {len(source['channels'])} channels, and NeMo's manifests cannot name one")
    return str(source["source"])


def _fields(supervision: dict[str, Any]) -> dict[str, Any]:
    names = (("text", "text"), ("speaker", "speaker"), ("language", "lang"), ("gender", "gender"))
    fields = {name: supervision[own] for own, name in names if supervision.get(own) is not None}
    return fields | {name: value for name, value in (supervision.get("custom") or {}).items() if name not in fields}


def _refuse(detail: str) -> NoReturn:
    raise RecordRejected(RejectReason.BAD_FIELD, detail)
