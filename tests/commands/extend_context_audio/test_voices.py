"""Grouping by voice: the presets with paths as the corpora have them, patterns, and what does not fit."""

import pickle

import pytest

from prepcli.commands.extend_context_audio.voices import PRESETS, group_key
from prepcli.errors import RecordRejected, RejectReason, UsageError

SPEAKER = "| Language:en Dataset:NVYT_2505 Speaker:Thg50o7gmsk_SPEAKER_00 |"

# Preset -> the field's value, the voice's name, another utterance of the same voice, one of another voice.
CASES = {
    "libritts": (
        "train-clean-100/103/1240/103_1240_000000_000001.wav",
        "train-clean-100_103_1240",
        "train-clean-100/103/1240/103_1240_000025_000003.wav",
        "train-clean-100/103/1241/103_1241_000000_000001.wav",
    ),
    "hifitts": (
        "11614_other/12352/prideofjennico_01_castle_0001.flac",
        "11614_other_12352_prideofjennico_01_castle",
        "11614_other/12352/prideofjennico_01_castle_0002.flac",
        "92_clean/12352/prideofjennico_01_castle_0001.flac",
    ),
    "hifitts2": (
        "100/2315/100_2315_sea_fairies_0812_librivox-01_baum_sea_fairies_0.flac",
        "100_2315_sea_fairies_0812_librivox-01_baum_sea_fairies",
        "100/2315/100_2315_sea_fairies_0812_librivox-01_baum_sea_fairies_117.flac",
        "100/2315/100_2315_sea_fairies_0812_librivox-02_baum_sea_fairies_0.flac",
    ),
    "nvyt2505": (SPEAKER, "thg50o7gmsk_speaker_00", SPEAKER.replace("en", "de", 1), SPEAKER.replace("00", "01")),
    "rivaLindyRodney": (
        "Lindy/44khz/WIZWIKI/LINDY_WIZWIKI_004161.wav",
        "lindy_wizwiki",
        "Lindy/22khz/WIZWIKI/LINDY_WIZWIKI_000001.wav",
        "Rodney/44khz/WIZWIKI/RODNEY_WIZWIKI_004161.wav",
    ),
    "rivaEmmaMeganSeanTom": (
        "Emma/22_kHz/Emma_Sad_Intense_Correlated_00147.wav",
        "emma_sad_intense_correlated",
        "Emma/22_kHz/Emma_Sad_Intense_Correlated_00002.wav",
        "Emma/22_kHz/Emma_Happy_00147.wav",
    ),
    "jhsdGtc20Amp20Keynote": (
        "AMP20_KEYNOTE-VOOnly-44khz-16bit-mono_12.wav",
        "amp20",
        "AMP20_KEYNOTE-VOOnly-44khz-16bit-mono_3.wav",
        "GTC20_FALL_KEYNOTE-VOOnly-44khz-16bit-mono_12.wav",
    ),
}


CASES["librittsDevClean"] = CASES["libritts"]


def test_every_preset_has_a_case() -> None:
    assert CASES.keys() == PRESETS.keys()


@pytest.mark.parametrize("preset", PRESETS)
def test_preset(preset: str) -> None:
    key = group_key(preset)
    value, name, same, other = CASES[preset]
    assert key.field == ("speaker" if preset == "nvyt2505" else "audio_filepath")
    assert key.function(value) == name == key.function(same)
    assert key.function(other) != name


@pytest.mark.parametrize("preset", PRESETS)
def test_what_does_not_fit_is_rejected(preset: str) -> None:
    with pytest.raises(RecordRejected, match="does not fit the pattern") as caught:
        group_key(preset).function("utterance.wav")
    assert caught.value.reason is RejectReason.BAD_FIELD


def test_the_speaker_is_taken_as_it_is() -> None:
    key = group_key("speaker")
    assert (key.field, key.function("| Speaker:A |")) == ("speaker", "| Speaker:A |")


def test_pattern_of_the_users() -> None:
    key = group_key(r"regex:audio_filepath:^([^/]+)/.*_(f|m):?(x)?")
    assert key.field == "audio_filepath"
    assert key.function("Room/a_m:x.wav") == "Room_m_x"
    assert key.function("Room/a_m.wav") == "Room_m_"
    assert pickle.loads(pickle.dumps(key)).function("b/a_f.wav") == "b_f_"  # it goes to worker processes


@pytest.mark.parametrize(
    ("group_by", "words"),
    [
        ("libri", "one of libritts, librittsDevClean, hifitts"),
        ("regex:speaker", "must be regex:FIELD:PATTERN"),
        ("regex::(a)", "must be regex:FIELD:PATTERN"),
        ("regex:speaker:(a", "not a regular expression: missing )"),
        ("regex:speaker:abc", "needs a group in parentheses"),
        ("regex:duration:(.)", "duration is not a field with text"),
    ],
)
def test_wrong_use(group_by: str, words: str) -> None:
    with pytest.raises(UsageError, match=words.replace("(", r"\(").replace(")", r"\)")):
        group_key(group_by)
