"""The names of languages and splits of omnilingual-asr, and its table of hours."""

import pytest

from prepcli.formats.omnilingual import folder_of, language_of, split_of, summary


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("de", "deu_Latn"),
        ("deu", "deu_Latn"),
        ("deu_Latn", "deu_Latn"),
        ("xyz_Abcd", "xyz_Abcd"),
        ("de-AT", "deu_Latn"),
        ("EN_us", "eng_Latn"),
        ("zh", "cmn_Hans"),
        ("zh-TW", "cmn_Hant"),
        ("zh-HK", "yue_Hant"),
        ("zh-Hant", "cmn_Hant"),
        ("sr-Latn", "srp_Latn"),
        ("sr", "srp_Cyrl"),
        ("xx", None),
        ("", None),
        ("german", None),
    ],
)
def test_languages(code: str, name: str | None) -> None:
    assert language_of(code) == name


def test_splits_and_folders() -> None:
    assert [split_of(name) for name in ("train", "validation", "Valid", "test", "other")] == [
        *("train", "dev", "dev", "test", "other"),
    ]
    assert folder_of("mls", "dev", "deu_Latn") == "corpus=mls/split=dev/language=deu_Latn"


def test_hours() -> None:
    table = summary({("b", "eng_Latn"): 16_000 * 3600, ("a", "deu_Latn"): 16_000 * 900})
    assert table == "corpus\tlanguage\thours\na\tdeu_Latn\t0.25\nb\teng_Latn\t1.0\n"
