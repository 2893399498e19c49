"""The contents of conversations: turns by role and type, hours, and a few dialogues to read and to hear."""

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from prepcli.commands.inspect.audio import NamedFile, look_at_files
from prepcli.commands.inspect.examples import Dialogue
from prepcli.commands.inspect.report import Inspection
from prepcli.commands.inspect.sample import EvenSample
from prepcli.errors import RecordRejected
from prepcli.interface.reports import percentiles
from prepcli.manifest.conversations import Turn, turns_of, values_of
from prepcli.manifest.lines import read_line
from prepcli.storage.containers import Catalogue
from prepcli.storage.paths import absolute

NUM_DIALOGUES = 3
_NUM_TEXTS = 6
_TEXT = 60


def look_at_conversations(catalogues: Sequence[Catalogue], num_audio_files: int, report: Inspection) -> None:
    """Add the numbers of conversations and of turns, the hours that the turns state, audio, and a few dialogues."""
    turns: Counter[str] = Counter()
    seconds = array("d")
    dialogues: EvenSample[Dialogue] = EvenSample(NUM_DIALOGUES)
    audio: EvenSample[NamedFile] = EvenSample(num_audio_files)
    for catalogue in catalogues:
        for number, line in enumerate(catalogue.read(absolute(catalogue)), 1):
            found = _dialogue(line, catalogue, number, report)
            if found is None:
                continue
            turns.update(f"{turn.role} {'audio' if turn.text is None else 'text'}" for turn in found.turns)
            heard = [(turn.audio, turn.offset, turn.duration or 0.0) for turn in found.turns if turn.text is None]
            seconds.append(sum(named[2] for named in heard))
            dialogues.add([found])
            audio.add(heard)
    report.records, report.hours, report.turns = len(seconds), sum(seconds) / 3600, dict(sorted(turns.items()))
    report.lines = report.records + sum(report.unusable.values())
    report.columns["duration"] = np.sort(np.array(seconds, np.float32))
    report.duration = percentiles(report.columns["duration"])
    report.dialogues = dialogues.chosen()
    report.first_records = [_shown(dialogue) for dialogue in report.dialogues]
    if num_audio_files and audio.items:
        report.audio = [look_at_files(audio.chosen())]


def _dialogue(line: bytes, path: str, number: int, report: Inspection) -> Dialogue | None:
    """The conversation in a line of a catalogue; None, noted in the report, if it is skipped or cannot be used."""
    try:
        usable = read_line(line, cuts=False)
        if usable is not None and usable.record is not None:
            record = usable.record
            turns = turns_of(values_of(record.fields))
            return Dialogue(path, number, str(record.get("id", "")), record.duration, turns)
        report.skipped += bool(line.strip())
    except RecordRejected as rejected:
        reason = rejected.reason.value
        report.unusable[reason] = report.unusable.get(reason, 0) + 1
        report.first_unusable = report.first_unusable or f"{path}:{number}: {rejected.detail}"
    return None


def _shown(dialogue: Dialogue) -> dict[str, Any]:
    """A conversation as a record with its first turns as the text."""
    text = " | ".join(map(_words, dialogue.turns[:_NUM_TEXTS]))
    return {"id": dialogue.id or f"line {dialogue.line}", "duration": dialogue.duration, "text": text}


def _words(turn: Turn) -> str:
    words = f"({turn.duration or 0.0:.2f} s)" if turn.text is None else " ".join(turn.text.split())
    return f"{turn.role}: {words if len(words) <= _TEXT else words[: _TEXT - 1] + '…'}"
