"""Options that several commands have: the type, the help text and the limits of each are declared here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, TypedDict, runtime_checkable

from prepcli.interface.options import Option, Paths, PathText
from prepcli.storage.member_names import NameEncoding


def _manifest(what: str) -> Option:
    return Option(
        f"{what}: a path, several separated by commas, or a brace pattern.",
        metavar="MANIFEST",
        several_paths=True,
        is_argument=True,
        shapes_output=False,
        takes_address=True,
    )


Manifests = Annotated[
    Paths, _manifest("NeMo manifest(s), or a data set (tarred, Shar, WeNet, webdataset, Parquet, zip)")
]
ManifestsOnly = Annotated[Paths, _manifest("NeMo manifest(s)")]

OutFile = Annotated[
    PathText,
    Option("Manifest to write.", metavar="OUT.json", is_argument=True, shapes_output=False, names_file=True),
]
AudioFolder = Annotated[
    PathText | None,
    Option(
        "Base folder of relative audio paths.",
        shown_default="the manifest's folder",
        must_exist="folder",
        order=-1,
        takes_address=True,
    ),
]

InputFormat = Annotated[
    Literal["manifest", "tarred", "shar", "wenet", "webdataset", "parquet", "zip"] | None,
    Option("Kind of the input.", shown_default="by its content", added_later=True),
]
NamesEncoding = Annotated[
    NameEncoding | None,
    Option("Encoding of names in a zip or tar, if not UTF-8.", shown_default="cp437 in a zip", added_later=True),
]
SetSplit = Annotated[
    str | None,
    Option("Split of a data set with several, such as train.", shown_default="its only one", added_later=True),
]
TimesFormat = Annotated[
    Literal["auto", "ctm", "rttm", "srt", "vtt", "textgrid", "json", "audacity", "kaldi"],
    Option("Format of --times; auto decides by the content.", needs="times", added_later=True),
]
AudioColumn = Annotated[
    str | None,
    Option("Column, or extension in a tar, with the audio.", shown_default="by type and name", added_later=True),
]
TextColumn = Annotated[
    str | None,
    Option("Column or field with the text.", shown_default="by its name: text, sentence, ...", added_later=True),
]
SpeakerColumn = Annotated[
    str | None,
    Option("Column or field with the speaker.", shown_default="by its name: speaker, ...", added_later=True),
]
LangColumn = Annotated[
    str | None,
    Option("Column or field with the language.", shown_default="by its name: lang, ...", added_later=True),
]
IdColumn = Annotated[
    str | None, Option("Column or field with the id.", shown_default="by its name: id, ...", added_later=True)
]


@dataclass(frozen=True)
class SetInput:
    """The options of commands that read manifests, or a data set in tars, Parquet or ZIP files."""

    input_format: InputFormat = None
    split: SetSplit = None
    audio_column: AudioColumn = None
    text_column: TextColumn = None
    speaker_column: SpeakerColumn = None
    lang_column: LangColumn = None
    id_column: IdColumn = None
    name_encoding: NamesEncoding = None


class InputArguments(TypedDict, total=False):
    """The options of commands that read a data set in tars, Parquet or ZIP files."""

    input_format: InputFormat
    split: SetSplit
    audio_column: AudioColumn
    text_column: TextColumn
    speaker_column: SpeakerColumn
    lang_column: LangColumn
    id_column: IdColumn
    name_encoding: NamesEncoding


class SetArguments(InputArguments, total=False):
    """The options of commands that read manifests, or a data set in tars, Parquet or ZIP files."""

    audio_base_dir: AudioFolder


WorkDir = Annotated[
    PathText | None,
    Option(
        "For an OUT in an object store (s3://bucket/prefix): the folder for the state of the run, which all ranks "
        "share.",
        shown_default="the current folder",
        metavar="DIR",
        shapes_output=False,
        order=2,
    ),
]
Channel = Annotated[
    str | None,
    Option(
        "Channel to take of audio with several: a number from 0, for records that do not name one in their field "
        "channel, or mix, the mean of all.",
        metavar="N|mix",
        shown_default="as the readers of the output need it, see docs/formats.md",
        added_later=True,
    ),
]
TargetRate = Annotated[int | None, Option("Resample to this rate (Hz).", shown_default="unchanged")]
ForceCodec = Annotated[
    Literal["flac", "wav", "opus", "mp3"] | None, Option("Encode audio to this format.", shown_default="unchanged")
]
CheckAudio = Annotated[
    bool,
    Option("Decode copied files as well, to find damage.", names=("--check-audio/--no-check-audio",), default=False),
]
Json = Annotated[
    bool,
    Option(
        "Print the summary as one JSON object on stdout.",
        names=("--json",),
        only="command line",
        shapes_output=False,
        default=False,
    ),
]
NumWorkers = Annotated[
    int | None,
    Option(
        "Number of local worker processes.",
        minimum=1,
        shown_default="available CPU cores",
        shapes_output=False,
    ),
]


@runtime_checkable
class UnitExecutor(Protocol):
    """The part of `concurrent.futures.Executor` that makes units."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Call `function` in a worker; returns a `concurrent.futures.Future`."""


Engine = Annotated[
    str | None,
    Option(
        "Make the units as tasks of dask or ray; =ADDRESS: on that cluster, else on one that is started here.",
        metavar="dask|ray[=ADDRESS]",
        shapes_output=False,
        order=1,
    ),
]
Executor = Annotated[
    UnitExecutor | None,
    Option(
        "Makes the units: any concurrent.futures.Executor, such as that of a Dask client.",
        only="Python",
        shapes_output=False,
        order=1,
    ),
]
MaxRejects = Annotated[
    float,
    Option(
        "Maximum rejects: a share (below 1) or a count; records that your settings leave out do not count. "
        "More rejects: exit code 3.",
        shapes_output=False,
        help_in_python="Maximum rejects: a share (below 1) or a count; records that your settings leave out do not "
        "count. More rejects: TooManyRejectsError.",
        default=0.05,
    ),
]
Progress = Annotated[
    bool,
    Option("Show a progress bar and notes on stderr.", only="Python", shapes_output=False, default=False),
]
