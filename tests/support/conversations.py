"""Conversations made of records: somebody gives a recording, and the answer is its text."""

from pathlib import Path

from tests.conftest import Lines, read_lines, write_lines


def conversations_of(records: Lines) -> Lines:
    """A conversation in NeMo's form for each record; `offset` and `duration` are those of the record."""
    lines: Lines = []
    for number, record in enumerate(records):
        place: dict[str, object] = {name: record[name] for name in ("duration", "offset") if name in record}
        turns: Lines = [
            {"from": "User", "type": "text", "value": "Write what you hear."},
            {"from": "User", "type": "audio", "value": record["audio_filepath"], **place},
            {"from": "Assistant", "type": "text", "value": record.get("text") or "Nothing."},
        ]
        lines.append({"id": f"chat{number}", "conversations": turns})
    return lines


def share_gpt_of(records: Lines) -> Lines:
    """A conversation in the form of ShareGPT for each record, which is heard whole."""
    return [
        {
            "id": f"chat{number}",
            "sound": record["audio_filepath"],
            "conversations": [
                {"from": "human", "value": "Write what you hear: <sound>"},
                {"from": "gpt", "value": record.get("text") or "Nothing."},
            ],
        }
        for number, record in enumerate(records)
    ]


def write_conversations(manifest: Path) -> Path:
    """Write conversations of the records of a manifest to `chats.jsonl` beside it."""
    return write_lines(manifest.with_name("chats.jsonl"), conversations_of(read_lines(manifest)))
