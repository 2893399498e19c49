"""The presets of `filter`: the thresholds of published data pipelines, as expressions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RulePreset:
    """The rules of a published pipeline.

    Attributes:
        source: where the thresholds are published.
        keep: the expressions that a record must fulfil.
        without: the steps of the pipeline that the expressions leave out; empty if there are none.
    """

    source: str
    keep: tuple[str, ...]
    without: str = ""


UNMEASURED = ("cer", "dnsmos", "sigmos_noise", "sigmos_ovrl", "sisdr_squim", "stoi_squim", "utmos_mos")
"""The fields of presets that no command of prepcli measures."""
PRESETS = {
    "curator-filter": RulePreset(
        "NeMo Curator, audio_data_filter/default_config.yaml",
        ("2 <= duration <= 60", "utmos_mos >= 3.4", "sigmos_noise >= 4.0", "sigmos_ovrl >= 3.5"),
        "the bandwidth classifier and the separation of speakers",
    ),
    "curator-tts": RulePreset(
        "NeMo Curator, tutorials/audio/tagging/README.md",
        ("5 <= duration <= 20", "bandwidth >= 8000", "sisdr_squim >= 15", "stoi_squim >= 0.9"),
        "the longest pause of 2 s",
    ),
    "emilia": RulePreset(
        "Amphion, preprocessors/Emilia/main.py",
        ("3 <= duration <= 30", "dnsmos >= 3.0", "len(text) >= 2"),
        "the quartiles of seconds per character within each source file",
    ),
    "granary-text": RulePreset(
        "NeMo SDP, dataset_configs/multilingual/granary/config.yaml",
        (
            "0.1 <= duration <= 40",
            "unique_words > 0.4",
            'longest_word < 25 or lang in ["fi", "hu", "et", "de", "nl", "da", "sv", "no"] and longest_word < 35',
            "chars_per_second <= 40",
        ),
        "the list of hallucinated phrases, the ratio of the two longest words, and the language of the audio",
    ),
    "hifitts": RulePreset("Hi-Fi TTS, arXiv 2104.01497", ("bandwidth >= 13000", "snr >= 32")),
    "magpie": RulePreset(
        "NeMo, examples/tts/conf/magpietts/magpietts_lhotse_dc_en.yaml",
        ("duration >= 0.2", "context_speaker_similarity >= 0.6", "cer <= 0.03"),
    ),
    "mcv-pt": RulePreset(
        "NeMo SDP, dataset_configs/portuguese/mcv", ("1 <= chars_per_second <= 21", "1 <= duration <= 16")
    ),
    "mls-pt": RulePreset("NeMo SDP, dataset_configs/portuguese/mls", ("1 <= chars_per_second <= 21",)),
}
"""The presets by name."""
