"""The recipes of lhotse 1.33: the languages, the arguments and the use of each; a test compares them with lhotse."""

from dataclasses import dataclass, replace

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


_LANGUAGES = """
adept English|aidatatang-200zh Chinese|aishell Chinese|aishell2 Chinese|aishell3 Chinese|aspire English|atcosim English
audio-mnist English|babel 25 languages|baker-zh Chinese|bengaliai-speech Bengali|cdsd Chinese|cmu-arctic English
cmu-indic languages of India, English|cmu-kids English|commonvoice 24 languages|csj Japanese|cslu-kids English
daily-talk English|earnings21 English|earnings22 English|ears English|edacc English
emilia English, Chinese, German, French, Japanese, Korean|eval2000 English|fisher-english English|fleurs 102 languages
gigaspeech English|gigaspeech2 Thai, Indonesian, Vietnamese|grid English|hifitts English|kespeech Chinese
ksponspeech Korean|l2-arctic English|librispeech English|libritts English|librittsr English|ljspeech English
magicdata Chinese|mdcc Cantonese|medical English|mgb2 Arabic|mls 8 languages|mtedx 8 languages|must-c English
nsc English|oto-speech English|peoples-speech English|primewords Chinese|reazonspeech Japanese|sbcsae English
speechio Chinese|spgispeech English|stcmds Chinese|switchboard English|tal-asr Chinese
tal-csasr Chinese, English|tedlium English|tedlium2 English|thchs-30 Chinese|this-american-life English|timit English
uwb-atcc English|vctk English|voxpopuli 16 languages|wenet-speech Chinese|wenetspeech4tts Chinese|xbmu-amdo31 Tibetan
yesno Hebrew
"""
"""Recipes with their languages. Each takes only CORPUS_DIR, unless it is in `_FIRST_ARGUMENTS` or `_NEEDED`."""
_NO_TEXTS = "without texts"
_NO_SPEECH = "it has no speech, only noise or room responses: list its files with make-manifest"
_ARRAYS = "segments of several channels are rejects"
_AUDIO_AND_TEXT = ("AUDIO_DIR", "TRANSCRIPT_DIR")
_OTHERS = (
    Recipe("aishell4", "Chinese", refused="every segment is of 8 channels at once"),
    Recipe("ali-meeting", "Chinese", remark="of an array of microphones the first channel"),
    Recipe("ami", "English", remark=f"--mic mdm: {_ARRAYS}"),
    Recipe("broadcast-news", "English", _AUDIO_AND_TEXT),
    Recipe("but-reverb-db", "", refused=_NO_SPEECH),
    Recipe("bvcc", "English", remark=_NO_TEXTS),
    Recipe("callhome-egyptian", "Arabic", _AUDIO_AND_TEXT),
    Recipe("callhome-english", "English", ("AUDIO_DIR",), "--transcript-dir"),
    Recipe("chime6", "English", remark=f"--mic mdm: {_ARRAYS}"),
    Recipe("dihard3", "", (), "--dev or --eval", _NO_TEXTS),
    Recipe("dipco", "English", remark=f"--mic mdm: {_ARRAYS}"),
    Recipe("fisher-spanish", "Spanish", _AUDIO_AND_TEXT),
    Recipe("gale-arabic", "Arabic", (), "--audio, --transcript"),
    Recipe("gale-mandarin", "Mandarin", (), "--audio, --transcript"),
    Recipe(
        "gigast",
        "Chinese, German",
        ("CORPUS_DIR", "MANIFESTS_DIR"),
        refused="it writes translations of the supervisions of gigaspeech, and no recordings",
    ),
    Recipe("heroico", "Spanish", ("SPEECH_DIR", "TRANSCRIPT_DIR")),
    Recipe("himia", "Chinese", remark="two words"),
    Recipe("icmcasr", "Chinese", remark=f"--mic mdm: {_ARRAYS}"),
    Recipe("icsi", "English", ("AUDIO_DIR",), "--transcripts-dir", f"--mic mdm: {_ARRAYS}"),
    Recipe("iwslt22-ta", "Arabic", ("CORPUS_DIR", "SPLITS")),
    Recipe("libricss", "English", remark=_ARRAYS),
    Recipe("librilight", "English", remark=_NO_TEXTS),
    Recipe(
        "librimix",
        "English",
        ("LIBRISPEECH_ROOT_PATH", "WHAM_RECSET_ROOT_PATH", "LIBRIMIX_METADATA_PATH", "WORKDIR"),
        refused="it writes cuts that are mixed when they are read",
    ),
    Recipe("librimix-mini", "English", ("LIBRIMIX_CSV",), remark=_NO_TEXTS),
    Recipe(
        "librispeechmix",
        "English",
        ("LIBRISPEECH_ROOT_PATH", "LIBRISPEECHMIX_METADATA_PATH"),
        refused="it writes cuts that are mixed when they are read",
    ),
    Recipe("musan", "", refused=_NO_SPEECH),
    Recipe("notsofar1", "English", remark=_ARRAYS),
    Recipe("radio", "", remark=_NO_TEXTS),
    Recipe("rir-noise", "", refused=_NO_SPEECH),
    Recipe("slu", ""),
    Recipe("spatial-librispeech", "English", remark=_ARRAYS),
    Recipe("speechcommands", "English", ("SPEECHCOMMANDS_VERSION", "CORPUS_DIR"), remark="a word each"),
    Recipe("voxceleb", "", (), "--voxceleb1 or --voxceleb2", _NO_TEXTS),
    Recipe("voxconverse", "English", remark=_NO_TEXTS),
    Recipe("wham", "", refused=_NO_SPEECH),
)
_NEEDED = {"emilia": "--lang", "must-c": "--tgt-lang", "switchboard": "--transcript-dir"}
_FIRST_ARGUMENTS = {"switchboard": ("AUDIO_DIR",), "tedlium": ("TEDLIUM_DIR",), "tedlium2": ("TEDLIUM_DIR",)}


def _common(entry: str) -> Recipe:
    name, _, languages = entry.partition(" ")
    arguments = _FIRST_ARGUMENTS.get(name, ("CORPUS_DIR",))
    return Recipe(name, languages, arguments, _NEEDED.get(name, ""))


_RELATIVE = (
    *("callhome-egyptian", "callhome-english", "cmu-kids", "cslu-kids", "eval2000", "fisher-english"),
    *("fisher-spanish", "gale-arabic", "gale-mandarin", "switchboard"),
)
"""Recipes that write relative audio paths without their base folder, unless `--absolute-paths` is given."""
_ALL = [*map(_common, _LANGUAGES.strip().replace("\n", "|").split("|")), *_OTHERS]
RECIPES = {
    one.name: replace(one, has_absolute_paths=one.name in _RELATIVE) for one in sorted(_ALL, key=lambda one: one.name)
}
"""All recipes by name, sorted by name."""
