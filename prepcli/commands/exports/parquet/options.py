"""The options of `manifest-to-parquet`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from prepcli.commands.exports.options import ShardOptions
from prepcli.engine.run.options import JobOptions
from prepcli.errors import UsageError, option
from prepcli.formats.omnilingual import NAME_OF_CORPUS, NAME_OF_SPLIT, language_of
from prepcli.interface.options import Option
from prepcli.interface.shared_options import Manifest, WorkDir
from prepcli.storage.paths import AnyPath


@dataclass(frozen=True)
class ParquetOptions(ShardOptions):
    """The options that shape Parquet files."""

    form: Annotated[
        Literal["hf", "omnilingual"],
        Option(
            "hf: for Hugging Face datasets and NeMo; omnilingual: for omnilingual-asr, mono FLAC at 16 kHz in folders "
            "by corpus, split and language.",
            disables=("shard_size", "row_group_size", "target_sample_rate"),
            added_later=True,
        ),
    ] = "hf"
    corpus: Annotated[
        str | None,
        Option(
            "With --form omnilingual: the corpus of records without the field corpus.", needs="form", added_later=True
        ),
    ] = None
    set_split: Annotated[
        str | None,
        Option(
            "With --form omnilingual: the split of records without the field split, such as train.",
            needs="form",
            added_later=True,
        ),
    ] = None
    set_lang: Annotated[
        str | None,
        Option(
            "With --form omnilingual: the language of records without the field lang, such as de.",
            needs="form",
            added_later=True,
        ),
    ] = None
    row_group_size: Annotated[
        int, Option("Maximum number of records per row group; a reader holds a whole row group.", minimum=1)
    ] = 200
    force_codec: Annotated[
        Literal["flac", "wav", "opus", "mp3", "ogg"] | None,
        Option("Encode audio to this format; ogg is Vorbis.", shown_default="unchanged; omnilingual: flac"),
    ] = None

    def check(self) -> None:
        """Check the options that exports share, and the options for omnilingual-asr; raises `UsageError`."""
        super().check()
        if self.form == "hf":
            return
        if self.force_codec not in (None, "flac", "ogg"):
            raise UsageError(f"{option('--force-codec', self.force_codec)}: omnilingual-asr has flac or ogg")
        for name, value, pattern in (
            ("--corpus", self.corpus, NAME_OF_CORPUS),
            ("--set-split", self.set_split, NAME_OF_SPLIT),
        ):
            if value is not None and not pattern.fullmatch(value):
                raise UsageError(
                    f"{option(name, value)} must begin with a letter, and have letters, digits, '.' and '-'"
                )
        if self.set_lang is not None and language_of(self.set_lang) is None:
            raise UsageError(f"{option('--set-lang', self.set_lang)} is not known; write it as deu_Latn")


@dataclass(frozen=True, kw_only=True)
class ManifestToParquet(ParquetOptions, JobOptions):
    """Turn NeMo manifests into Parquet files, as NeMo (type: parquet) and Hugging Face datasets read them.

    Writes OUT/data-{000000}.parquet, one file per shard, with the columns id, audio {bytes, path}, duration, text, and
    one for each further field of the manifests. Lists and objects, and fields of several types, become JSON text. Files
    that need no change are stored byte for byte; segments are cut exactly. Needs pyarrow (the extra parquet).

    With --form omnilingual, as omnilingual-asr reads them: OUT/corpus=C/split=S/language=L/data-{000000}.parquet with
    the columns text, audio_bytes and audio_size, and OUT/_language_distribution.tsv with the hours of each language.

    Run the same command again to continue after an interruption.

    Example: prepcli manifest-to-parquet train.json parquet/ --shard-size 1000
    """

    manifest: Manifest
    out: Annotated[
        AnyPath,
        Option("Directory for the Parquet files.", metavar="OUT", is_argument=True, shapes_output=False),
    ]
    work_dir: WorkDir = None
