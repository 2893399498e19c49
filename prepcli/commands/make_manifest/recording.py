"""The audio file of an entry: where it is, how long it is, and what names it in the manifest."""

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from prepcli.audio.info import AudioInfo, unreadable
from prepcli.audio.probe import plain_wav_seconds, probe_bytes, probe_file
from prepcli.audio.read import segment_samples
from prepcli.commands.make_manifest.entries import SourceEntry
from prepcli.commands.make_manifest.kaldi import in_archive, is_command
from prepcli.commands.make_manifest.options import MakeManifest
from prepcli.commands.make_manifest.paths import PathNames
from prepcli.commands.make_manifest.source import EntrySource
from prepcli.engine.publishing.publish import UnitWriter
from prepcli.errors import RecordRejected, RejectReason
from prepcli.processes.in_hand import take_in_hand

_ODD = re.compile(r"[^\w.-]")


def audio_folder(manifest: str) -> str:
    """The folder beside a manifest for audio that commands make: `train.json` -> `train_audio`."""
    return f"{os.path.splitext(manifest)[0]}_audio"


class Recordings:
    """Finds and measures the audio of the entries of one unit. Neighbours of one file are measured once."""

    def __init__(self, source: EntrySource, options: MakeManifest, writer: UnitWriter) -> None:
        self._source = source
        self._options = options
        self._writer = writer
        self._names = PathNames(options.out.parent, options.absolute_paths)
        self._last: tuple[str, AudioInfo, str] | None = None
        self._are_paths = source.kind != "kaldi"
        self._base = source.base.rstrip("/") + "/"

    def measure(self, entry: SourceEntry) -> tuple[dict[str, Any], float]:
        """The record's path, duration in seconds and, of a segment, offset; and the duration.

        Raises:
            RecordRejected: the audio is missing or unreadable, or the segment is not in it.
        """
        if entry.offset is None and self._are_paths:
            path = self._base + entry.path if entry.path[:1] != "/" else entry.path
            seconds = plain_wav_seconds(path)
            if seconds is not None:
                return {"audio_filepath": self._names.name(path), "duration": seconds}, seconds
        if self._last is None or self._last[0] != entry.path:
            self._last = (entry.path, *self._probe(entry))
        _, info, name = self._last
        if entry.offset is None:
            return {"audio_filepath": name, "duration": info.duration}, info.duration
        start, length = segment_samples(info, entry.offset, entry.duration or None)
        duration = entry.duration
        if not duration or start + length == info.num_samples:
            duration = min(duration or info.duration, info.num_samples / info.sampling_rate - entry.offset)
        return {"audio_filepath": name, "duration": duration, "offset": entry.offset}, duration

    def path(self, entry: SourceEntry) -> str:
        """The absolute path of the audio.

        Raises:
            RecordRejected: a segment is of a recording that the source does not know, or several times.
        """
        return os.path.join(self._source.base, self._value(entry))

    def _value(self, entry: SourceEntry) -> str:
        found = self._source.audio_of(entry)
        if found is None:
            raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no recording {entry.path} in wav.scp")
        return found

    def name(self, entry: SourceEntry) -> str:
        """What names the audio in the manifest, also where it cannot be used."""
        try:
            path = self.path(entry)
        except RecordRejected:
            return entry.path
        return path if "\0" in path else self._names.name(path)

    def _probe(self, entry: SourceEntry) -> tuple[AudioInfo, str]:
        value = self._value(entry)
        path = os.path.join(self._source.base, value)
        if self._source.kind == "kaldi":
            if is_command(value):
                return self._run(entry, value)
            if in_archive(value):
                unreadable(value, "is a place in an archive of Kaldi; copy the audio to files first")
        take_in_hand(path)
        try:
            return probe_file(path), self._names.name(path)
        except RecordRejected as rejected:
            if rejected.reason is RejectReason.MISSING_AUDIO and self._source.hint and not os.path.isabs(entry.path):
                raise RecordRejected(rejected.reason, f"{rejected.detail}; {self._source.hint}") from None
            raise

    def _run(self, entry: SourceEntry, command: str) -> tuple[AudioInfo, str]:
        """Run a command of wav.scp, and keep the audio that it prints."""
        words = command.strip().removesuffix("|")
        recording = entry.path if self._source.recordings is not None else entry.key
        done = subprocess.run(
            words, shell=True, cwd=self._source.base, capture_output=True, stdin=subprocess.DEVNULL, check=False
        )
        if done.returncode:
            said = ": ".join(done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:])
            unreadable(recording, f"cannot be made: `{words.strip()}` ended with {done.returncode} {said}".rstrip())
        info = probe_bytes(done.stdout, recording)
        stem = _ODD.sub("_", recording)
        if stem != recording or len(stem) > 180:  # two names must not become one
            stem = f"{stem[:180]}-{hashlib.blake2b(recording.encode(), digest_size=6).hexdigest()}"
        name = f"{audio_folder(self._options.out.name)}/{stem}.{info.format}"
        self._writer.add(name, done.stdout)
        made = Path(self._options.out.parent, name)
        return info, str(made.absolute()) if self._options.absolute_paths else name
