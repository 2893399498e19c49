"""The choices of a call of `make-manifest`."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prepcli.errors import UsageError, option
from prepcli.manifest.output_name import check_manifest_name

_MEASURED = ("audio_filepath", "duration", "offset")


@dataclass(frozen=True, kw_only=True, slots=True)
class MakeSettings:
    """The options of a call that its parts need; `prepcli.commands.make_manifest.command` explains them.

    Attributes:
        constants: the fields that all records get, with their values.
        pattern: finds the speaker in the path of the audio.
    """

    source: str
    out: Path
    format: str
    audio_base_dir: Path | None
    text_suffix: str | None
    transcripts: Path | None
    times: str | None
    times_format: str
    constants: Mapping[str, str]
    pattern: "re.Pattern[str] | None"
    audio_column: str | None
    text_column: str | None
    speaker_column: str | None
    lang_column: str | None
    columns: str | None
    input_format: str | None
    split: str | None
    name_encoding: str | None
    absolute_paths: bool
    run_commands: bool

    def __post_init__(self) -> None:
        """Check everything that does not depend on the source.

        Raises:
            UsageError: options contradict each other.
        """
        if self.text_suffix is not None and self.transcripts is not None:
            raise UsageError(
                f"give {option('--text-suffix')} or {option('--transcripts')}, not both: a record has one text"
            )
        if self.text_suffix is not None and "." not in self.text_suffix:
            raise UsageError(
                f"{option('--text-suffix', self.text_suffix)} has no dot; did you mean .{self.text_suffix}?"
            )
        if self.times is not None and (self.text_suffix is not None or self.transcripts is not None):
            other = "--text-suffix" if self.text_suffix is not None else "--transcripts"
            raise UsageError(f"give {option('--times')} or {option(other)}, not both: a record has one text")
        for name, value, field in (
            ("--times", self.times, "text"),
            ("--text-suffix", self.text_suffix, "text"),
            ("--transcripts", self.transcripts, "text"),
            ("--speaker-pattern", self.pattern, "speaker"),
        ):
            if value is not None and field in self.constants:
                raise UsageError(
                    f"give {option(name)} or {option('--set')} {field}=..., not both: a record has one {field}"
                )
        if self.out.is_dir() and not os.path.exists(self.source) and "," not in self.source:
            raise UsageError(
                f"SOURCE {self.source} is not there, and OUT.json {self.out} is a folder; SOURCE comes first: "
                f"{shlex.join(['prepcli', 'make-manifest', str(self.out), self.source])}"
            )
        check_manifest_name(self.out, "make-manifest")


def constants_of(lang: str | None, fields: Sequence[str]) -> dict[str, str]:
    """The fields that all records get by `--lang` and by `--set`, with their values.

    Raises:
        UsageError: `--set` is not FIELD=VALUE, names a field that is measured, or gives a field two values.
    """
    constants = {} if lang is None else {"lang": lang}
    for text in fields:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{option('--set')} takes FIELD=VALUE, not {text!r}")
        if name in _MEASURED:
            raise UsageError(f"{option('--set')} cannot give {name}: it comes from the audio")
        if name in constants and constants[name] != value:
            raise UsageError(f"{name} is given twice, as {constants[name]} and as {value}: leave one of them out")
        constants[name] = value
    return constants


def pattern_of(speaker_pattern: str | None) -> "re.Pattern[str] | None":
    """The compiled `--speaker-pattern`; None if it is not given.

    Raises:
        UsageError: it is not a regular expression.
    """
    if speaker_pattern is None:
        return None
    try:
        return re.compile(speaker_pattern)
    except re.error as error:
        raise UsageError(
            f"{option('--speaker-pattern', speaker_pattern)} is not a regular expression: {error}"
        ) from None
