"""The options of `make-manifest`."""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from prepcli.engine.run.options import JobOptions
from prepcli.errors import UsageError, option
from prepcli.interface.options import Option
from prepcli.interface.shared_options import InputFormat, NamesEncoding, OutManifest

Format = Literal["auto", "folder", "list", "kaldi", "csv", "audiofolder", "filelist", "jsonl", "lhotse", "set"]
_MEASURED = ("audio_filepath", "duration", "offset")


@dataclass(frozen=True, kw_only=True)
class MakeManifest(JobOptions):
    """Make a NeMo manifest of your own audio, with durations as measured.

    SOURCE is a folder of audio, a list of paths, a Kaldi data directory, a CSV or TSV, a Hugging Face audiofolder
    (metadata.csv, .jsonl or .parquet), a file list (path|text, path|text|speaker or path|speaker|text), JSON lines
    with the path of the audio ({"audio": ..., "text": ...}), lhotse cuts (.jsonl),
    recordings and supervisions of lhotse (their folder, one of both files, or RECORDINGS,SUPERVISIONS), or a data set
    (tarred, Shar, WeNet, webdataset, Parquet, zip; audio is then named FILE::MEMBER). Records are in the order of the
    source, those of a folder of audio sorted by path. Audio that cannot be read, and records whose transcript is
    missing or ambiguous, are listed as rejects in OUT.json.prepcli/.

    Run the same command again to continue after an interruption.

    Example: prepcli make-manifest recordings/ train.json --text-suffix .txt --speaker-pattern '([^/]+)/' --lang en
    """

    source: Annotated[
        str,
        Option("Folder or file that names the audio.", metavar="SOURCE", is_argument=True, shapes_output=False),
    ]
    out: OutManifest
    format: Annotated[Format, Option("Format of SOURCE; auto decides by its content, and the summary says why.")] = (
        "auto"
    )
    audio_base_dir: Annotated[
        Path | None,
        Option(
            "Base folder of relative paths in SOURCE.",
            shown_default="the folder of SOURCE; for Kaldi and lhotse the working directory",
            must_exist="folder",
        ),
    ] = None
    text_suffix: Annotated[
        str | None, Option("Suffix of the files beside the audio that hold the transcripts, such as .txt.")
    ] = None
    transcripts: Annotated[
        Path | None,
        Option(
            "File of transcripts: `id text`, `id|text` or `id|text|normalized text` per line; the id is the audio "
            "file's name without suffix.",
            must_exist="file",
        ),
    ] = None
    speaker_pattern: Annotated[
        str | None,
        Option(
            "Regular expression that finds the speaker in the path of the audio below the base folder; the groups are "
            "joined by _."
        ),
    ] = None
    lang: Annotated[str | None, Option("Language of all records.")] = None
    set: Annotated[
        tuple[str, ...],
        Option(
            "Give all records a field with this text. May be repeated.",
            names=("--set",),
            metavar="FIELD=VALUE",
            one_each=True,
        ),
    ] = ()
    audio_column: Annotated[
        str | None, Option("Column with the audio's path.", shown_default="by its name: audio_filepath, file_name, ...")
    ] = None
    text_column: Annotated[
        str | None, Option("Column with the text.", shown_default="by its name: text, sentence, ...")
    ] = None
    speaker_column: Annotated[
        str | None, Option("Column with the speaker.", shown_default="by its name: speaker, client_id, ...")
    ] = None
    lang_column: Annotated[
        str | None,
        Option("Column with the language.", shown_default="by its name: lang, locale, ...", added_later=True),
    ] = None
    columns: Annotated[
        str | None,
        Option(
            "Names of the columns of a table without a header, in their order, such as path,text,speaker; - for one "
            "to leave out. With --transcripts, of that file: id,text,speaker.",
            metavar="NAMES",
            added_later=True,
        ),
    ] = None
    input_format: InputFormat = None
    name_encoding: NamesEncoding = None
    absolute_paths: Annotated[bool, Option("Write absolute audio paths instead of paths relative to OUT.json.")] = False
    run_commands: Annotated[
        bool,
        Option(
            "Run the commands in Kaldi's wav.scp (entries that end in |) or of lhotse's recordings, and write their "
            "audio to OUT_audio/. Only for files that you trust."
        ),
    ] = False

    def constants(self) -> dict[str, str]:
        """The fields that all records get, with their values.

        Raises:
            UsageError: `--set` is not FIELD=VALUE, names a field that is measured, or gives a field two values.
        """
        found = {} if self.lang is None else {"lang": self.lang}
        for one in self.set:
            name, equals, value = one.partition("=")
            if not equals or not name:
                raise UsageError(f"{option('--set')} takes FIELD=VALUE, not {one!r}")
            if name in _MEASURED:
                raise UsageError(f"{option('--set')} cannot give {name}: it comes from the audio")
            if name in found and found[name] != value:
                raise UsageError(f"{name} is given twice, as {found[name]} and as {value}: leave one of them out")
            found[name] = value
        return found

    def pattern(self) -> "re.Pattern[str] | None":
        """The compiled `--speaker-pattern`; None if it is not given.

        Raises:
            UsageError: it is not a regular expression.
        """
        if self.speaker_pattern is None:
            return None
        try:
            return re.compile(self.speaker_pattern)
        except re.error as error:
            raise UsageError(
                f"{option('--speaker-pattern', self.speaker_pattern)} is not a regular expression: {error}"
            ) from None

    def check(self) -> None:
        """Check everything that does not depend on the source.

        Raises:
            UsageError: options contradict each other.
        """
        from prepcli.manifest.output_name import check_manifest_name

        constants = self.constants()
        self.pattern()
        if self.text_suffix is not None and self.transcripts is not None:
            raise UsageError(
                f"give {option('--text-suffix')} or {option('--transcripts')}, not both: a record has one text"
            )
        if self.text_suffix is not None and "." not in self.text_suffix:
            raise UsageError(
                f"{option('--text-suffix', self.text_suffix)} has no dot; did you mean .{self.text_suffix}?"
            )
        for name, value, field in (
            ("--text-suffix", self.text_suffix, "text"),
            ("--transcripts", self.transcripts, "text"),
            ("--speaker-pattern", self.speaker_pattern, "speaker"),
        ):
            if value is not None and field in constants:
                raise UsageError(
                    f"give {option(name)} or {option('--set')} {field}=..., not both: a record has one {field}"
                )
        if self.out.is_dir() and not os.path.exists(self.source) and "," not in self.source:
            raise UsageError(
                f"SOURCE {self.source} is not there, and OUT.json {self.out} is a folder; SOURCE comes first: "
                f"{shlex.join(['prepcli', 'make-manifest', str(self.out), self.source])}"
            )
        check_manifest_name(self.out, "make-manifest")
