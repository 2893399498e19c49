"""The facts of an inspection as text: titled groups of rows, the same for the terminal and the HTML page."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from prepcli.commands.inspect.audio import AudioFacts
from prepcli.commands.inspect.runs import RunFacts
from prepcli.commands.inspect.tars import MAX_TARS, CodeFacts, TarFacts
from prepcli.engine.run.report import format_bytes
from prepcli.errors import option
from prepcli.interface.printing import number_of, printable_command

if TYPE_CHECKING:
    from prepcli.commands.inspect.report import Inspection, NamedShare

_MAX_SHOWN, _MAX_NAME = 8, 60
MIN_HOURS = 0.1
"""Durations below this number of hours are given in minutes."""


class Section(NamedTuple):
    """A titled group of rows; each row is a name and a text."""

    title: str
    rows: list[tuple[str, str]]


def sections_of(report: "Inspection") -> list[Section]:
    """The sections of the report on an inspection, most interesting first; sections without rows are left out."""
    candidates = [
        Section("Contents", _contents(report)),
        Section("Speakers by hours", [(speaker.name, _size(speaker)) for speaker in report.top_speakers]),
        Section("Audio", [row for facts in report.audio for row in _audio(facts)]),
        Section("Tars", [row for facts in report.tars for row in _tars(facts)]),
        Section("Codes", [row for facts in report.codes for row in _codes(facts)]),
        Section("Data sets", [(part.files, _part(part.records, part.hours, part.weight)) for part in report.parts]),
        Section("Made by", [row for run in report.runs for row in _run(run)]),
        Section("Note", [("", note) for note in notes_of(report)]),
    ]
    return [section for section in candidates if section.rows]


def notes_of(report: "Inspection") -> list[str]:
    """Notes for the user: unusual or missing facts, and advice."""
    notes = list(report.notes)
    if report.unusable and report.kind != "rejects":
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(report.unusable.items()))
        total = sum(report.unusable.values())
        notes.append(f"{number_of(total, 'line')} cannot be used ({reasons}); the first is {report.first_unusable}")
    if report.records and 0 < report.without_text < report.records:
        notes.append(
            f"{report.without_text:,} of {report.records:,} records {'has' if report.without_text == 1 else 'have'} no "
            "text"
        )
    partial = [f"{_short(name)} {count:,}" for name, count in report.fields.items() if count < report.records]
    if partial and report.kind != "rejects":
        notes.append(f"not in all {report.records:,} records: {', '.join(partial[:20])}")
    for facts in report.audio:
        where = f"{facts.where or 'the tars'}: "
        faults = [("missing", facts.missing), ("unreadable", facts.unreadable)]
        bad = [
            f"{count:,} of {facts.looked_at:,} {'is' if count == 1 else 'are'} {name}"
            for name, count in faults
            if count
        ]
        bad += (
            [f"{number_of(facts.beyond_audio, 'record', 'end')} after the end of the audio"]
            if facts.beyond_audio
            else []
        )
        hint = (
            f" ({option('--audio-base-dir')} sets the base folder of relative paths)"
            if facts.missing == facts.looked_at
            else ""
        )
        notes += [f"{where}{', '.join(bad)}; {'; '.join(facts.examples)}{hint}"] if bad else []
    damaged = [problem for tars in report.tars for problem in tars.damaged] + [
        problem for codes in report.codes for problem in codes.damaged
    ]
    return notes + [f"damaged: {problem}" for problem in damaged]


def _contents(report: "Inspection") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    if report.kind == "rejects":
        rows.append(("rejects", f"{report.lines:,}, {report.records:,} of them readable as records"))
        rows.append(("reasons", counted(report.reject_reasons)))
    elif report.lines:
        skipped = f", {report.skipped:,} more skipped (_skipme)" if report.skipped else ""
        rows.append(("records", f"{report.records:,}{skipped}" + (f" in {report.files:,} files" * (report.files > 1))))
        if report.hours:
            mean = f", {report.hours * 3600 / report.records:,.2f} s per record on average"
            rows.append(("audio", length(report.hours) + mean))
    if report.turns:
        rows.append(("turns", ", ".join(f"{count:,} {name}" for name, count in report.turns.items())))
    if report.segments:
        rows.append(("segments", f"{number_of(report.segments, 'record')} with an offset above 0"))
    if report.speakers:
        rows.append(("speakers", f"{report.speakers:,}"))
    if report.languages:
        named = [f"{language.name} ({_size(language)})" for language in report.languages[:_MAX_SHOWN]]
        rows.append(("languages", ", ".join([*named, *and_more(report.num_languages, len(named))])))
    if report.extensions:
        rows.append(("extensions", counted(report.extensions)))
    if report.cut_sampling_rates:
        rates = {f"{rate} Hz": count for rate, count in report.cut_sampling_rates.items()}
        rows.append(("rates of the cuts", counted(rates)))
    if report.fields:
        rows.append(("fields", ", ".join(map(_short, report.fields))))
    config = report.metadata.get("dataset_config") or {}
    if config:
        given = [_setting(name, value) for name, value in config.items() if value not in (None, False)]
        rows.append(("metadata.yaml", ", ".join(given)))
    return rows


def _setting(name: str, value: Any) -> str:
    return f"{name}: {len(value)} values" if isinstance(value, list) else f"{name}: {value}"


def quantiles_of(report: "Inspection") -> list[list[str]]:
    """A table of quantiles, heading first; empty if nothing was measured."""
    named = [
        ("duration (s)", report.duration),
        ("characters per second", report.chars_per_second),
        ("context similarity", report.context_similarity),
        ("bandwidth (Hz)", report.bandwidth),
        ("speech to noise (dB)", report.snr),
        ("loudness (LUFS)", report.loudness),
        ("share of speech", report.speech_share),
    ]
    rows = [[name, *(f"{value:,.2f}" for value in values.values())] for name, values in named if values]
    heading = ["", "min", "1%", "5%", "25%", "median", "75%", "95%", "99%", "max"]
    return [heading, *rows] if rows else []


def _audio(facts: AudioFacts) -> list[tuple[str, str]]:
    name = facts.where or "members"
    readable = facts.looked_at - facts.missing - facts.unreadable
    details = [
        ("  lengths", _lengths(facts)),
        ("  rates", counted({f"{rate} Hz": count for rate, count in facts.sampling_rates.items()})),
        ("  codecs", counted(facts.formats)),
        ("  channels", counted({_channels(number): count for number, count in facts.channels.items()})),
    ]
    which = "all" if readable == facts.looked_at else f"{readable:,}" if readable else "none"
    rows = [(name, f"{facts.looked_at:,} checked, {which} readable")]
    return rows + [row for row in details if row[1]]


def _lengths(facts: AudioFacts) -> str:
    if facts.seconds is None:
        return ""
    shortest, longest = (f"{seconds:,.2f}" for seconds in facts.seconds)
    return f"{shortest} s" if shortest == longest else f"{shortest} to {longest} s"


def _channels(number: int) -> str:
    return {1: "mono", 2: "stereo"}.get(number, f"{number} channels")


def _tars(facts: TarFacts) -> list[tuple[str, str]]:
    opened = "" if facts.tars <= MAX_TARS else f" in the {facts.tars_opened} that were opened"
    sizes = f" ({format_bytes(facts.smallest_bytes)} to {format_bytes(facts.largest_bytes)})" if facts.tars > 1 else ""
    return [
        (facts.where or "tars", f"{facts.tars:,}, {format_bytes(facts.num_bytes)}{sizes}"),
        ("", f"{number_of(facts.members, 'member')}{opened}: {counted(facts.extensions)}"),
        ("", f"the first are {', '.join(facts.first_members[:2])}"),
    ]


def _codes(facts: CodeFacts) -> list[tuple[str, str]]:
    shifts = [f"{shift:.6g} s ({1 / shift:.4g} frames per second)" for shift in facts.frame_shift if shift > 0]
    text = f"{', '.join(map(str, facts.codebooks))} codebooks, frame shift {', '.join(shifts[:3])}"
    rows = [(facts.where, f"{number_of(facts.tars, 'tar')}; {text if facts.codebooks else 'no codes'}")]
    if facts.frames and facts.codes:
        kept = f"codes {facts.codes[0]:,} to {facts.codes[1]:,} as {', '.join(facts.types)}"
        rows.append(("", f"{facts.frames[0]:,} to {facts.frames[1]:,} frames, {kept} ({facts.looked_at:,} looked at)"))
    if facts.placeholders:
        rows.append(("", f"{number_of(facts.placeholders, 'cut', 'have')} none"))
    return rows


def _run(run: RunFacts) -> list[tuple[str, str]]:
    part = f" ({run.part})" if run.part else ""
    version = f" with prepcli {run.prepcli}" if run.prepcli else ""
    state = f"finished {run.finished}{version}" if run.finished else run.state
    rows = [
        (run.command + part, f"begun {run.planned}, {state}"),
        (
            "",
            f"{run.units_done:,} of {number_of(run.units, 'unit')}, {run.records_out:,} of "
            f"{number_of(run.records_in, 'record')}",
        ),
        ("", f"$ {printable_command(run.run_with)}   in {run.run_in}"),
    ]
    if run.rejects:
        rows[1] = ("", f"{rows[1][1]}; rejects: {counted(run.rejects)}, listed in {run.rejects_file}")
    if run.continue_with:
        rows.append(("", f"continue with: {printable_command(run.continue_with)}"))
    return rows


def _part(records: int, hours: float, weight: float | None) -> str:
    return f"{number_of(records, 'record')}, {length(hours)}" + (f", weight {weight:g}" if weight is not None else "")


def _size(share: "NamedShare") -> str:
    return f"{length(share.hours)}, {number_of(share.records, 'record')}"


def length(hours: float) -> str:
    """Hours as text, such as `1.25 h`; less than `MIN_HOURS` is given in minutes, such as `4.5 min`."""
    return f"{hours:,.2f} h" if hours >= MIN_HOURS else f"{hours * 60:.1f} min"


def _short(name: str) -> str:
    """The name of a field, shortened: by mistake it may be a long text."""
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"


def text_of(value: Any) -> str:
    """The value of a field as text: a string unchanged, any other value as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def and_more(count: int, shown: int) -> list[str]:
    """The end of a list of which only the first items are shown: `["3 more"]`, or empty if all are shown."""
    return [f"{count - shown:,} more"] if count > shown else []


def counted(counts: Mapping[str, int]) -> str:
    """Counts as text, such as `flac: 12, wav: 3`: the 8 largest first, ties by name, then the number of other names."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    more = [number_of(len(ordered) - _MAX_SHOWN, "other")] if len(ordered) > _MAX_SHOWN else []
    return ", ".join([*(f"{name}: {count:,}" for name, count in ordered[:_MAX_SHOWN]), *more])
