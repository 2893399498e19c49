"""One corpus in all the forms that `make-manifest` reads."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import Lines

FORMS = ("folder", "kaldi", "csv", "filelist", "audiofolder", "lhotse")


def write_form(form: str, folder: Path, audio: Path, records: Lines) -> Sequence[object]:
    """Describe the audio of `records` (paths relative to `audio`) in a new folder; returns SOURCE and the options.

    Speakers are texts without |.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if form == "folder":
        transcripts = folder / "transcripts.txt"
        transcripts.write_text("".join(f"{Path(r['audio_filepath']).stem} {r['text']}\n" for r in records))
        links = folder / "links"
        links.mkdir()
        for record in records:
            link = links / record["speaker"] / Path(record["audio_filepath"]).name
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(audio / record["audio_filepath"])
        return links, "--transcripts", transcripts, "--speaker-pattern", "^([^/]+)/"
    if form == "kaldi":
        ids = [f"utt{number:04d}" for number in range(len(records))]
        for name, field in (("text", "text"), ("utt2spk", "speaker")):
            lines = [f"{id} {record[field]}\n" for id, record in zip(ids, records, strict=True)]
            (folder / name).write_text("".join(lines))
        paths = [audio / record["audio_filepath"] for record in records]
        (folder / "wav.scp").write_text("".join(f"{id} {path}\n" for id, path in zip(ids, paths, strict=True)))
        return (folder,)
    if form == "csv":
        with (folder / "table.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["path", "sentence", "client_id"])
            rows.writerows([r["audio_filepath"], r["text"], r["speaker"]] for r in records)
        return folder / "table.csv", "--audio-base-dir", audio
    if form == "filelist":
        lines = [f"{r['audio_filepath']}|{r['text']}|{r['speaker']}\n" for r in records]
        (folder / "list.txt").write_text("".join(lines))
        return folder / "list.txt", "--audio-base-dir", audio
    if form == "audiofolder":
        rows_ = [
            {"file_name": r["audio_filepath"], "transcription": r["text"], "speaker": r["speaker"]} for r in records
        ]
        (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_))
        return folder, "--audio-base-dir", audio
    cuts = [_cut(number, record, audio) for number, record in enumerate(records)]
    (folder / "cuts.jsonl").write_text("".join(json.dumps(cut) + "\n" for cut in cuts))
    return (folder / "cuts.jsonl",)


def _cut(number: int, record: dict[str, object], audio: Path) -> dict[str, object]:
    duration = record["duration"]
    source = {"type": "file", "channels": [0], "source": str(audio / str(record["audio_filepath"]))}
    recording = {"id": f"rec{number}", "sources": [source], "sampling_rate": 8000, "duration": duration}
    speech = {"id": f"sup{number}", "start": 0, "duration": duration, "text": record["text"], "channel": 0}
    return {
        "id": f"cut{number}",
        "type": "MonoCut",
        "start": 0,
        "duration": duration,
        "channel": 0,
        "recording": recording,
        "supervisions": [speech | {"speaker": record["speaker"]}],
    }
