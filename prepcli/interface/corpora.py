"""The corpora with a command of their own: each entry defines the command, the summary and the line in `--list`."""

from typing import NamedTuple


class Corpus(NamedTuple):
    """A corpus that `prepcli download NAME` prepares.

    Attributes:
        name: as typed on the command line, e.g. `librispeech`.
        languages: the names of the languages, for the summary.
        speech: the kind of speech and the sampling rate, for the summary.
        licence: the licence of the publisher, for the summary.
        hours: hours of speech; None if the publisher does not count them.
        archives: the size of the archives, for the summary.
        publisher: the server from which the corpus is fetched; None if it is read from the user's copy.
        copy: the content of the user's copy, for the summary.
        is_sliced: whether the recordings are cut into slices; the command then has the report of a job.
        module: the module in `prepcli.commands.download.published` with the command; by default it has this name.
    """

    name: str
    languages: str
    speech: str
    licence: str
    hours: int | None = None
    archives: str = ""
    publisher: str | None = None
    copy: str = ""
    is_sliced: bool = False
    module: str = ""

    @property
    def summary(self) -> str:
        """One line that describes the corpus in the list of commands."""
        hours = f"{self.hours:,} h, " if self.hours is not None else ""
        if self.publisher is None:
            source = f"{self.licence}: needs your copy{self.copy and ' of '}{self.copy}"
        else:
            source = f"{self.archives}, {self.licence}, fetched from {self.publisher}"
        return f"{self.languages}, {hours}{self.speech}. {source[:1].upper()}{source[1:]}."


CORPORA = (
    Corpus(
        name="librispeech",
        languages="English",
        hours=982,
        speech="16 kHz",
        archives="Archives 61 GB (mini 0.5 GB)",
        licence="CC BY 4.0",
        publisher="OpenSLR",
    ),
    Corpus(
        name="an4",
        languages="English",
        speech="spelling, 1,078 utterances, 16 kHz",
        archives="Archive 64 MB",
        licence="licence not stated",
        publisher="NVIDIA",
    ),
    Corpus(
        name="aishell",
        languages="Mandarin",
        hours=178,
        speech="16 kHz",
        archives="Archive 15.6 GB",
        licence="Apache 2.0",
        publisher="OpenSLR",
    ),
    Corpus(
        name="aishell2",
        languages="Mandarin",
        hours=1000,
        speech="16 kHz",
        licence="free for academic use, on request",
    ),
    Corpus(
        name="ljspeech",
        languages="English",
        hours=24,
        speech="one reader, 22.05 kHz",
        archives="Archive 2.7 GB",
        licence="public domain",
        publisher="keithito.com",
    ),
    Corpus(
        name="libritts",
        languages="English",
        hours=585,
        speech="2,456 readers, 24 kHz",
        archives="Archives 84 GB",
        licence="CC BY 4.0",
        publisher="OpenSLR",
    ),
    Corpus(
        name="libritts-r",
        languages="English",
        hours=585,
        speech="LibriTTS with restored sound, 24 kHz",
        archives="Archives about as large",
        module="libritts",
        licence="CC BY 4.0",
        publisher="OpenSLR",
    ),
    Corpus(
        name="hifitts",
        languages="English",
        hours=292,
        speech="10 readers, 44.1 kHz",
        archives="Archive about 41 GB",
        licence="CC BY 4.0",
        publisher="OpenSLR",
    ),
    Corpus(
        name="hifitts2",
        languages="English",
        hours=36700,
        speech="audio books of LibriVox, cut, 22.05 or 44.1 kHz",
        archives="Chapters one by one",
        licence="CC BY 4.0",
        publisher="LibriVox",
    ),
    Corpus(
        name="vctk",
        languages="English",
        hours=44,
        speech="110 speakers of many accents, 48 kHz",
        archives="Archive 11.7 GB",
        licence="CC BY 4.0",
        publisher="Edinburgh DataShare",
    ),
    Corpus(
        name="mls",
        languages="Dutch, English, French, German, Italian, Polish, Portuguese, Spanish",
        hours=50834,
        speech="audio books, 16 kHz",
        archives="An archive per language",
        licence="CC BY 4.0",
        publisher="OpenSLR",
    ),
    Corpus(
        name="common-voice",
        languages="290 languages",
        hours=41792,
        speech="sentences, MP3",
        licence="licence as stated with your copy",
        copy="a language, from Mozilla Data Collective",
    ),
    Corpus(
        name="fisher",
        languages="English",
        hours=1960,
        speech="telephone, 8 kHz",
        licence="LDC licence",
        copy="LDC2004S13, LDC2005S13 or both",
        is_sliced=True,
    ),
    Corpus(
        name="hub5",
        languages="English",
        hours=11,
        speech="telephone test set, 8 kHz",
        licence="LDC licence",
        copy="LDC2002S09, LDC2002T43",
        is_sliced=True,
    ),
)
"""The corpora, in the order of `prepcli download --help`."""
