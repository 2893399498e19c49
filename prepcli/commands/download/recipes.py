"""The recipes of lhotse 1.33: the languages, the arguments and the use of each; a test compares them with lhotse."""

import re
from dataclasses import dataclass

OUTPUT = "OUTPUT_DIR"


@dataclass(frozen=True, slots=True)
class Recipe:
    """A corpus that `lhotse prepare NAME` reads.

    Attributes:
        name: as typed after `lhotse prepare`.
        languages: the names of the languages; empty if the recipe does not say.
        arguments: the names of the arguments of `lhotse prepare` before the output folder.
        needs: options that the recipe cannot do without; empty if there are none.
        remark: a remark on its manifests, such as missing texts or rejected records; empty if there is none.
        has_absolute_paths: whether the recipe needs its option `--absolute-paths`: without it, audio paths in its
            output are relative to a folder that the output does not name.
        refused: why no manifest can be made of the corpus; empty if one can be made.
    """

    name: str
    languages: str
    arguments: tuple[str, ...] = ("CORPUS_DIR",)
    needs: str = ""
    remark: str = ""
    refused: str = ""
    has_absolute_paths: bool = False

    @property
    def use(self) -> str:
        """A text that says whether the recipe works, what it needs, or why it is not for manifests."""
        if self.refused:
            return f"not for manifests: {self.refused}"
        more = " ".join(filter(None, [*(self.arguments if self.arguments != ("CORPUS_DIR",) else ()), self.needs]))
        return "; ".join(filter(None, [f"needs {more}" if more else "works", self.remark]))


_NO_TEXTS = "without texts"
_NO_SPEECH = "it has no speech, only noise or room responses: list its files with make-manifest"
_ARRAYS = "segments of several channels are rejects"
_MIXED = "it writes cuts that are mixed when they are read"
_TRANSLATIONS = "it writes translations of the supervisions of gigaspeech, and no recordings"
_TABLE = f"""
adept|English; aidatatang-200zh|Chinese; aishell|Chinese; aishell2|Chinese; aishell3|Chinese; aspire|English
atcosim|English; audio-mnist|English; babel|25 languages; baker-zh|Chinese; bengaliai-speech|Bengali; cdsd|Chinese
cmu-arctic|English; cmu-indic|languages of India, English; cmu-kids|English; commonvoice|24 languages; csj|Japanese
cslu-kids|English; daily-talk|English; earnings21|English; earnings22|English; ears|English; edacc|English
eval2000|English; fisher-english|English; fleurs|102 languages; gigaspeech|English
gigaspeech2|Thai, Indonesian, Vietnamese; grid|English; hifitts|English; kespeech|Chinese; ksponspeech|Korean
l2-arctic|English; librispeech|English; libritts|English; librittsr|English; ljspeech|English; magicdata|Chinese
mdcc|Cantonese; medical|English; mgb2|Arabic; mls|8 languages; mtedx|8 languages; nsc|English; oto-speech|English
peoples-speech|English; primewords|Chinese; reazonspeech|Japanese; sbcsae|English; slu|; speechio|Chinese
spgispeech|English; stcmds|Chinese; tal-asr|Chinese; tal-csasr|Chinese, English; thchs-30|Chinese
this-american-life|English; timit|English; uwb-atcc|English; vctk|English; voxpopuli|16 languages; wenet-speech|Chinese
wenetspeech4tts|Chinese; xbmu-amdo31|Tibetan; yesno|Hebrew
aishell4|Chinese||||every segment is of 8 channels at once
ali-meeting|Chinese|||of an array of microphones the first channel
ami|English|||--mic mdm: {_ARRAYS}
broadcast-news|English|AUDIO_DIR TRANSCRIPT_DIR
but-reverb-db|||||{_NO_SPEECH}
bvcc|English|||{_NO_TEXTS}
callhome-egyptian|Arabic|AUDIO_DIR TRANSCRIPT_DIR
callhome-english|English|AUDIO_DIR|--transcript-dir
chime6|English|||--mic mdm: {_ARRAYS}
dihard3||none|--dev or --eval|{_NO_TEXTS}
dipco|English|||--mic mdm: {_ARRAYS}
emilia|English, Chinese, German, French, Japanese, Korean||--lang
fisher-spanish|Spanish|AUDIO_DIR TRANSCRIPT_DIR
gale-arabic|Arabic|none|--audio, --transcript
gale-mandarin|Mandarin|none|--audio, --transcript
gigast|Chinese, German|CORPUS_DIR MANIFESTS_DIR|||{_TRANSLATIONS}
heroico|Spanish|SPEECH_DIR TRANSCRIPT_DIR
himia|Chinese|||two words
icmcasr|Chinese|||--mic mdm: {_ARRAYS}
icsi|English|AUDIO_DIR|--transcripts-dir|--mic mdm: {_ARRAYS}
iwslt22-ta|Arabic|CORPUS_DIR SPLITS
libricss|English|||{_ARRAYS}
librilight|English|||{_NO_TEXTS}
librimix|English|LIBRISPEECH_ROOT_PATH WHAM_RECSET_ROOT_PATH LIBRIMIX_METADATA_PATH WORKDIR|||{_MIXED}
librimix-mini|English|LIBRIMIX_CSV||{_NO_TEXTS}
librispeechmix|English|LIBRISPEECH_ROOT_PATH LIBRISPEECHMIX_METADATA_PATH|||{_MIXED}
musan|||||{_NO_SPEECH}
must-c|English||--tgt-lang
notsofar1|English|||{_ARRAYS}
radio||||{_NO_TEXTS}
rir-noise|||||{_NO_SPEECH}
spatial-librispeech|English|||{_ARRAYS}
speechcommands|English|SPEECHCOMMANDS_VERSION CORPUS_DIR||a word each
switchboard|English|AUDIO_DIR|--transcript-dir
tedlium|English|TEDLIUM_DIR
tedlium2|English|TEDLIUM_DIR
voxceleb||none|--voxceleb1 or --voxceleb2|{_NO_TEXTS}
voxconverse|English|||{_NO_TEXTS}
wham|||||{_NO_SPEECH}
"""
"""A recipe a line, or several with ; between them: name|languages|arguments|needs|remark|refused, as far as there are
values. No arguments stand for CORPUS_DIR."""
_RELATIVE = (
    *("callhome-egyptian", "callhome-english", "cmu-kids", "cslu-kids", "eval2000", "fisher-english"),
    *("fisher-spanish", "gale-arabic", "gale-mandarin", "switchboard"),
)
"""Recipes that write relative audio paths without their base folder, unless `--absolute-paths` is given."""


def _recipe(row: str) -> Recipe:
    name, languages, arguments, needs, remark, refused = (*row.strip().split("|"), *[""] * 4)[:6]
    words = () if arguments == "none" else tuple((arguments or "CORPUS_DIR").split())
    return Recipe(name, languages, words, needs, remark, refused, has_absolute_paths=name in _RELATIVE)


RECIPES = {one.name: one for one in sorted(map(_recipe, re.split("[;\n]", _TABLE.strip())), key=lambda one: one.name)}
"""All recipes by name, sorted by name."""
