"""The names of codes in the output, from the option or from the codec."""

import re

import pytest

from prepcli.errors import UsageError
from prepcli.models.codecs import codec_name


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("/models/audio codec 22khz.nemo", "audio_codec_22khz"),
        ("nvidia/nemo-nano-codec", "nemo-nano-codec"),
        ("models/mimi/", "mimi"),
        ("._hidden.nemo", "hidden"),
        ("/", "codec"),
        ("x" * 150, "x" * 150),
    ],
)
def test_name_of_the_model(model: str, name: str) -> None:
    assert codec_name(model) == name
    assert codec_name(model, "given.1") == "given.1"


def test_the_current_folder_has_a_name(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert codec_name(".") == re.sub(r"[^A-Za-z0-9._-]+", "_", str(tmp_path).rpartition("/")[2])


@pytest.mark.parametrize("given", ["", "a b", "a/b", ".hidden", "ä"])
def test_wrong_names(given: str) -> None:
    with pytest.raises(UsageError, match="use letters, digits, dots, dashes and underscores"):
        codec_name("mimi", given)


def test_long_names() -> None:
    with pytest.raises(UsageError, match="151 characters that would name the codes: give --codec-name"):
        codec_name("x" * 151)
