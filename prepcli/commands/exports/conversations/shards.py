"""The shards of conversations: their division, how they are written, and the section for a training config."""

import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from prepcli.audio.opening import read_whole
from prepcli.audio.probe import probe
from prepcli.audio.segments import EncodedAudio, encoded, locate
from prepcli.commands.exports.records import AudioContents, Conversion
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.formats.conversations import MANIFEST_NAME, META_NAME, PAIRS_NAME, TAR_NAME
from prepcli.formats.indexes import INDEX_SUFFIX, IndexedLines, SampleTarWriter
from prepcli.formats.names import absolute_folder, brace_text
from prepcli.formats.train_ds import write_train_ds
from prepcli.interface.printing import number_of
from prepcli.jobs.record_job import RecordUnit, even_bounds, units_of
from prepcli.jobs.records import Records
from prepcli.jobs.source import RecordSource, items
from prepcli.manifest.conversations import Turn, of_turn, turns_of
from prepcli.manifest.parts import FieldKey
from prepcli.manifest.record import Record, Value
from prepcli.planning.arrays import Scratch, Values
from prepcli.planning.hashing import num_distinct
from prepcli.planning.split import by_count, by_seconds, in_order, seconds_of, selected

SOUND = "<sound>"
_NEMO_PLACEHOLDERS = (SOUND, "<speech>")
AUDIO_TAG = "[audio]"
"""The tag in a training config that stands for audio in a prompt; in YAML it needs quotes, else it is a list."""
_ID = FieldKey("id", str, is_optional=True)
_encode = msgspec.json.Encoder().encode
_TURN_NAME = "{:07d}-{:02d}-{:08x}.{}"
"""The name of a member: the numbers of the conversation and of the turn, and the checksum of the audio. NeMo finds the
audio of a batch by the names of members, so those of different sets must differ as well."""
_NAMES = {"nemo": (TAR_NAME, MANIFEST_NAME), "sharegpt-webdataset": (PAIRS_NAME, "")}


def plan_shards(
    source: RecordSource,
    workspace: Workspace,
    num_shards: int | None,
    shard_size: int,
    shard_hours: float | None,
    seed: int | None,
    *,
    has_ids: bool,
) -> Plan[RecordUnit, AudioContents]:
    """Index the conversations, and divide them into shards. `has_ids`: whether their ids are written.

    Raises:
        UsageError: an input has no conversations, or there are fewer than shards.
    """
    records = source.read(workspace, {"id": _ID} if has_ids else None)
    if num_shards is not None and num_shards > len(records):
        raise UsageError(
            f"{number_of(len(records), 'conversation')} cannot fill {num_shards} shards; lower {option('--num-shards')}"
        )

    def make(scratch: Scratch) -> Values:
        durations = records.index.duration
        order = in_order(len(records), seed, scratch)
        if shard_hours is not None:
            bounds = by_seconds(selected(durations, order, scratch), shard_hours * 3600, scratch)
        else:
            bounds = by_count(len(records), num_shards) if num_shards else even_bounds(len(records), shard_size)
        return {"order": order, "bounds": bounds, "seconds": seconds_of(durations, order, bounds)}

    values = dict(source.layout(records, make))
    bounds, seconds = values["bounds"].tolist(), values["seconds"].tolist()
    units = units_of("shard", bounds, seconds, make=RecordUnit)
    notes = _notes_on_ids(records) if has_ids else []
    return records.plan(units, AudioContents(records, order=values["order"]), notes=notes)


def _notes_on_ids(records: Records) -> list[str]:
    """A note if ids occur several times; the index has their hashes, and 0 stands for none."""
    ids = records.index.keys["id"]
    its_own = ids[ids != 0]
    if not (count := len(its_own) - num_distinct(its_own)):
        return []
    is_again = ids != 0
    is_again[np.unique(ids, return_index=True)[1]] = False
    first = int(np.flatnonzero(is_again)[0])
    path, line = records.origin(first)
    what = "1 conversation has" if count == 1 else f"{count:,} conversations have"
    return [
        f"{what} the id of an earlier one (the first is {records.record(first).get('id')}, in {path}:{line}): NeMo "
        "reads all, but explain and compare cannot always tell them apart; give them different ids"
    ]


def write_shard(contents: AudioContents, unit: RecordUnit, writer: UnitWriter, wanted: Conversion, form: str) -> None:
    """Write the tar of a shard and its manifest, then their indexes."""
    tar_name, manifest_name = (name.format(unit.number) for name in _NAMES[form])
    tar = SampleTarWriter(writer.open(tar_name))
    manifest = IndexedLines(writer.open(manifest_name)) if manifest_name else None
    for item in items(contents, unit, writer):
        with item:
            made = list(_audio_of(contents, item.number, item.record, wanted))
            if manifest is not None:
                line = _nemo(item.record, made)
                for turn, stored in made:
                    if stored is not None:
                        tar.add(turn.audio, stored.data)
                manifest.add(line + b"\n")
            else:
                key, text, stored = _pair(item.record, item.number, made)
                tar.add(f"{key}.json", text)
                tar.add(f"{key}.{stored.format}", stored.data)
            item.seconds = sum(stored.num_samples / stored.sampling_rate for _, stored in made if stored is not None)
    tar.close()
    writer.add_after(tar_name + INDEX_SUFFIX, tar.index)
    if manifest is not None:
        writer.add_after(manifest_name + INDEX_SUFFIX, manifest.index)


def _audio_of(
    contents: AudioContents, number: int, record: Record, wanted: Conversion
) -> Iterator[tuple[Turn, EncodedAudio | None]]:
    """The turns of a conversation with the audio of each, which has its name in the tar.

    Raises:
        RecordRejected: the audio of a turn cannot be used; the detail names the turn.
    """
    for place, turn in enumerate(turns_of({"conversations": record.get("conversations")}), 1):
        if turn.text is not None:
            yield turn, None
            continue
        try:
            path = contents.records.audio_path(number, turn.audio)
            source = path if turn.offset else read_whole(path, path)
            segment = locate(
                source, probe(source, path), turn.offset, turn.duration, turn.more.get("channel"), wanted.policy, path
            )
            stored = encoded(segment, wanted.target, wanted.policy, check=wanted.check)
        except RecordRejected as rejected:
            raise of_turn(place, rejected) from None
        more = {name: value for name, value in turn.more.items() if name not in ("channel", "sampling_rate")}
        yield (
            turn._replace(
                audio=_TURN_NAME.format(number, place, zlib.crc32(stored.data), stored.format),
                offset=0.0,
                duration=round(stored.num_samples / stored.sampling_rate, 9),
                more={**more, "sampling_rate": stored.sampling_rate},
            ),
            stored,
        )


def _nemo(record: Record, made: Sequence[tuple[Turn, EncodedAudio | None]]) -> bytes:
    """The line of NeMo's form."""
    turns = msgspec.Raw(_encode([turn.document() for turn, _ in made]))
    return record.to_json({"conversations": turns}, ("audio_filepath", "duration", "_skipme"))


def _pair(
    record: Record, number: int, made: Sequence[tuple[Turn, EncodedAudio | None]]
) -> tuple[str, bytes, EncodedAudio]:
    """The key, the JSON and the audio of a conversation in ShareGPT's form.

    Raises:
        RecordRejected: the conversation has other audio than one, or what NeMo would read as something else.
    """
    audio = [stored for _, stored in made if stored is not None]
    if len(audio) != 1:
        detail = f"{len(audio) or 'no'} turns have audio; a pair has one: {option('--form', 'nemo')} takes any number"
        raise RecordRejected(RejectReason.BAD_FIELD, detail)
    for place, (turn, _) in enumerate(made, 1):
        wrong = ""
        if turn.role == "System":
            wrong = "it is of the system, and NeMo takes it for the assistant in this form"
        elif any(name in (turn.text or "") for name in _NEMO_PLACEHOLDERS):
            wrong = f"it has {' or '.join(_NEMO_PLACEHOLDERS)} in its text, and NeMo takes it for audio"
        if wrong:
            rejected = RecordRejected(RejectReason.BAD_FIELD, f"{wrong}: {option('--form', 'nemo')} keeps it")
            raise of_turn(place, rejected)
    key = f"{number:07d}"
    turns: list[dict[str, Any]] = []
    for turn, stored in made:
        text = SOUND if stored is not None else turn.text or ""
        name = {"User": "human", "Assistant": "gpt"}[turn.role]
        more = {field: value for field, value in turn.more.items() if stored is None or field != "sampling_rate"}
        before = turns[-1] if turns else {"value": ""}
        if {**before, "value": SOUND} == {"from": name, "value": SOUND, **more} and SOUND in (text, before["value"]):
            before["value"] += f"\n{text}"
        else:  # NeMo reads the same turns if a text and the audio next to it are not joined
            turns.append({"from": name, "value": text, **more})
    changes: dict[str, Value] = {
        "sound": f"{key}.{audio[0].format}",
        "conversations": msgspec.Raw(_encode(turns)),
    }
    return key, record.to_json(changes, ("audio_filepath", "duration", "_skipme")), audio[0]


def finished(units: Sequence[RecordUnit], markers: Sequence[Marker], writer: UnitWriter, form: str) -> dict[str, Any]:
    """Write what describes the whole set; returns the details of the report."""
    out = writer.workspace.out
    if form == "nemo":
        paths = {
            "manifest_filepath": out / _pattern(MANIFEST_NAME, len(units)),
            "tarred_audio_filepaths": out / _pattern(TAR_NAME, len(units)),
        }
        entry: dict[str, Any] = {
            "type": "multimodal_conversation",
            **{key: _loaded(path) for key, path in paths.items()},
        }
    else:
        counts = {marker.unit: marker.records_out for marker in markers}
        shards = [{"url": PAIRS_NAME.format(unit.number), "nsamples": counts[unit.id]} for unit in units]
        meta = {"wids_version": 1, "name": "conversations", "shardlist": shards}
        writer.open(META_NAME).write(json.dumps(meta, indent=2).encode() + b"\n")
        paths = {"data_dir": out}
        entry = {"type": "share_gpt_webdataset", "data_dir": _loaded(out)}
    entry["audio_locator_tag"] = AUDIO_TAG
    return paths | {"train_ds": write_train_ds(writer, "conversations-to-tarred", {"input_cfg": [entry]})}


def _pattern(name: str, count: int) -> str:
    return name.format("0" if count < 2 else brace_text("0", str(count - 1)))


def _loaded(path: Any) -> str:
    return absolute_folder(str(path.parent)).rstrip("/") + f"/{path.name}"
