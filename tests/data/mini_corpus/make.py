"""Makes the mini corpus: 8 synthetic speakers, 6 sentences each, in five languages.

Needs the Debian package espeak-ng, and numpy and soundfile (both come with prepcli). Run it from anywhere:

    python tests/data/mini_corpus/make.py                 # rewrites the corpus in place
    python tests/data/mini_corpus/make.py /tmp/corpus     # makes it elsewhere

Deterministic: the same versions of espeak-ng and libsndfile give the same bytes. Other versions may
move a duration by some milliseconds, so commit the audio and both JSON files together.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile as sf

MARGIN = 0.05  # seconds of silence kept before and after the speech
MIN_CONTEXT = 3.0  # seconds: a context shorter than that says little about a voice
GAP = 0.2  # seconds of silence between two sentences of a long recording
PEAK = 0.25  # every utterance is scaled to this peak: far from clipping, and small as FLAC
GRID = 0.02  # seconds; lengths are multiples of it, so that offsets and durations are exact in decimals
SILENCE = 0.004  # samples below this (of full scale) at either end count as silence
LONG_SPEAKERS = ("s01",)  # whose sentences are also joined into one long recording

Samples = npt.NDArray[np.int16]


@dataclass(frozen=True)
class Speaker:
    """A synthetic speaker: an espeak-ng voice, its settings, and what it says."""

    name: str
    lang: str
    voice: str
    pitch: int  # 0 to 99
    words_per_minute: int
    sentences: tuple[str, ...]


SPEAKERS = (
    Speaker(
        "s01", "en", "en-us+m3", 35, 150,
        (
            "Good morning to you.",
            "The kettle is boiling.",
            "Nobody asked for the key.",
            "We left the car near the old bridge and walked home.",
            "She keeps three clocks in the kitchen, all of them wrong.",
            "When the snow melts in April, the river rises so fast that the mill has to close.",
        ),
    ),
    Speaker(
        "s02", "en", "en-gb+f4", 62, 150,
        (
            "Not today, thanks.",
            "My sister plays the cello.",
            "Ten apples are left.",
            "You will find the library right behind the town hall.",
            "I have read that letter so often that I know every word of it.",
            "The concert was moved indoors, because the wind had taken half of the tents.",
        ),
    ),
    Speaker(
        "s03", "en", "en-gb-scotland+m5", 20, 140,
        (
            "Mind the step.",
            "The ferry sails at noon.",
            "He mended the gate.",
            "Fresh bread is sold on the harbour every Saturday.",
            "If the fog does not lift, we will wait for the evening tide.",
            "My grandfather knew each of these hills by name, "
            "and he used to tell a story about most of them.",
        ),
    ),
    Speaker(
        "s04", "de", "de+f2", 55, 155,
        (
            "Wir sehen uns morgen!",
            "Der Zug hat Verspätung.",
            "Im Garten blühen die Krokusse.",
            "Kannst du mir bitte sagen, wo ich den Schlüssel finde?",
            "Am Sonntag fahren wir mit dem Rad um den großen See.",
            "Weil die Straße gesperrt war, nahmen wir einen Umweg durch die Dörfer.",
        ),
    ),
    Speaker(
        "s05", "fr", "fr-fr+m2", 45, 130,
        (
            "À bientôt, mes amis!",
            "Il pleut depuis ce matin.",
            "Le café est fermé le lundi.",
            "Nous avons trouvé une petite maison près de la forêt.",
            "Elle a oublié son parapluie dans le train de Marseille.",
            "Quand les enfants sont rentrés de l'école, le gâteau était déjà sur la table.",
        ),
    ),
    Speaker(
        "s06", "es", "es+steph", 70, 160,
        (
            "Hasta luego, Andrés.",
            "Mañana vamos a la playa.",
            "El perro duerme en la cocina.",
            "Mi vecina toca el piano todas las tardes después de comer.",
            "No encuentro las llaves, y el autobús sale ahora mismo.",
            "En otoño, los árboles del parque se vuelven rojos, y la gente pasea sin prisa.",
        ),
    ),
    Speaker(
        "s07", "it", "it+m7", 28, 150,
        (
            "Buona sera, signora.",
            "Il caffè è ancora caldo.",
            "La finestra guarda sul mare.",
            "Domani mattina devo alzarmi molto presto per lavorare.",
            "Abbiamo camminato tutto il giorno senza incontrare nessuno.",
            "Mio zio ripara orologi antichi in una bottega piccola, proprio dietro la chiesa.",
        ),
    ),
    Speaker(
        "s08", "en", "en-029+Andrea", 88, 130,
        (
            "Is anybody out there?",
            "The market closes at five.",
            "The green boxes go below.",
            "Two boys were flying a kite above the wide and empty field.",
            "The doctor told him to rest and to drink a lot of water.",
            "After the storm had passed, the whole village came down to the beach.",
        ),
    ),
)  # fmt: skip


def say(speaker: Speaker, sentence: str, folder: Path) -> tuple[Samples, int]:
    """What espeak-ng makes of a sentence: trimmed, scaled 16-bit samples and their sampling rate."""
    wav = folder / "say.wav"
    subprocess.run(
        ["espeak-ng", "-v", speaker.voice, "-p", str(speaker.pitch), "-s", str(speaker.words_per_minute),
         "-w", str(wav), "--", sentence],
        check=True,
    )  # fmt: skip
    samples, sampling_rate = sf.read(wav, dtype="float64")
    speech = np.flatnonzero(np.abs(samples) > SILENCE)
    if not speech.size:
        raise SystemExit(f"espeak-ng was silent: {speaker.name}: {sentence!r}")
    margin, grid = round(MARGIN * sampling_rate), round(GRID * sampling_rate)
    samples = samples[max(0, speech[0] - margin) : speech[-1] + 1 + margin]
    samples = np.pad(samples, (0, -samples.size % grid))
    scaled = np.rint(samples * (PEAK * 32767 / np.abs(samples).max())).astype(np.int16)
    return scaled, int(sampling_rate)


def write_flac(path: Path, samples: Samples, sampling_rate: int) -> None:
    """One mono 16-bit FLAC file, compressed as far as it goes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sf.write(path, samples, sampling_rate, format="FLAC", subtype="PCM_16", compression_level=1.0)


def write_manifest(path: Path, records: list[dict[str, Any]]) -> None:
    """A NeMo manifest: one JSON object per line, UTF-8 as it is."""
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    path.write_text("".join(lines), encoding="utf-8")


def write_subtitles(folder: Path, segments: list[dict[str, Any]]) -> None:
    """An SRT file beside each long recording: each cue is a sentence, from its first sound to its last."""
    for path in dict.fromkeys(segment["audio_filepath"] for segment in segments):
        cues = [segment for segment in segments if segment["audio_filepath"] == path]
        times = [(cue["offset"] + MARGIN, cue["offset"] + cue["duration"] - MARGIN) for cue in cues]
        texts = [
            f"{number}\n{srt_time(start)} --> {srt_time(end)}\n{cue['text']}\n"
            for number, (cue, (start, end)) in enumerate(zip(cues, times, strict=True), start=1)
        ]
        (folder / path).with_suffix(".srt").write_text("\n".join(texts), encoding="utf-8")


def srt_time(seconds: float) -> str:
    """A time below an hour, such as 00:01:02,500."""
    milliseconds = round(1000 * seconds)
    return f"00:{milliseconds // 60_000:02d}:{milliseconds // 1000 % 60:02d},{milliseconds % 1000:03d}"


def make(out: Path) -> None:
    """The whole corpus: `sNN/*.flac`, `long/*.flac` with subtitles, and the manifests."""
    manifest: list[dict[str, Any]] = []
    segments: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for speaker in SPEAKERS:
            label = f"| Language:{speaker.lang} Dataset:mini Speaker:{speaker.name} |"
            long_path = f"long/{speaker.name}.flac"
            joined: list[Samples] = []
            num_samples = 0  # in `joined`
            sampling_rate = 0
            for number, sentence in enumerate(speaker.sentences, start=1):
                samples, sampling_rate = say(speaker, sentence, Path(scratch))
                path = f"{speaker.name}/{speaker.name}_u{number}.flac"
                write_flac(out / path, samples, sampling_rate)
                rest = {"text": sentence, "speaker": label, "lang": speaker.lang}
                duration = round(samples.size / sampling_rate, 4)
                manifest.append({"audio_filepath": path, "duration": duration, **rest})
                if speaker.name in LONG_SPEAKERS:
                    offset = round(num_samples / sampling_rate, 4)
                    segments.append({"audio_filepath": long_path, "offset": offset, "duration": duration, **rest})
                    silence = np.zeros(round(GAP * sampling_rate), np.int16)
                    joined += [samples, silence]
                    num_samples += samples.size + silence.size
            if joined:
                write_flac(out / long_path, np.concatenate(joined[:-1]), sampling_rate)
    write_manifest(out / "manifest.json", manifest)
    transcripts = [f"{Path(record['audio_filepath']).stem} {record['text']}\n" for record in manifest]
    (out / "transcripts.txt").write_text("".join(transcripts), encoding="utf-8")
    write_manifest(out / "segments.json", segments)
    write_subtitles(out, segments)
    write_manifest(out / "manifest_with_context.json", [record | context_of(record, manifest) for record in manifest])


def context_of(record: dict[str, Any], manifest: list[dict[str, Any]]) -> dict[str, Any]:
    """The fields that name a context: the next utterance of 3 s or more of the same speaker.

    Any other of the speaker would do; a real context is chosen by similarity.
    """
    start = manifest.index(record) + 1
    context = next(
        other
        for other in manifest[start:] + manifest[:start]
        if other["speaker"] == record["speaker"] and other is not record and other["duration"] >= MIN_CONTEXT
    )
    return {
        "context_audio_filepath": context["audio_filepath"],
        "context_audio_offset": 0.0,
        "context_audio_duration": context["duration"],
        "context_audio_text": context["text"],
    }


if __name__ == "__main__":
    if shutil.which("espeak-ng") is None:
        raise SystemExit("espeak-ng is missing: sudo apt-get install espeak-ng")
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent)
