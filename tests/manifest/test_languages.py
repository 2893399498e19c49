"""Names of languages and their codes."""

import pytest

from prepcli.manifest.languages import language_code


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("English", "en"),
        ("german", "de"),
        ("Singaporean English", "en"),
        ("English-Nigeria", "en"),
        ("tibetan", "bo"),
        ("Mandarin", "zh"),
        ("Norwegian Bokmål", "nb"),
        ("en", "en"),
        ("DE", "de"),
        ("yue", "yue"),
        ("en_us", "en_us"),
        ("zh-Hans", "zh-Hans"),
        ("Ji-Lu", None),
        ("Klingon", None),
        ("", None),
    ],
)
def test_codes(name: str, code: str | None) -> None:
    assert language_code(name) == code
