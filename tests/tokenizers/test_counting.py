"""Which tokenizer counts what, and lines of manifests and cuts counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from prepcli.errors import RecordRejected, UsageError
from prepcli.manifest.columns import LineBlocks
from prepcli.manifest.parts import Columns, Numbers
from prepcli.tokenizers.counting import Tokenizers, TokenizerSpec, kind_of_tokenizer
from prepcli.tokenizers.token_columns import TokensOfCuts, TokensOfTexts
from tests.support.tokenizer_models import awkward_texts, corpus_texts, train_hf, train_sentencepiece


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_sentencepiece(tmp_path_factory.mktemp("bpe") / "tokenizer.model")


@pytest.fixture(scope="module")
def char(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_sentencepiece(tmp_path_factory.mktemp("char") / "tokenizer.model", model_type="char")


def counts(path: Path, texts: list[str]) -> list[int]:
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [len(model.encode(text)) for text in texts]


@pytest.mark.parametrize(
    ("tokenizers", "langs", "words"),
    [
        ((), (), "no tokenizer is named"),
        (("a", "b"), (), "2 tokenizers need as many languages .* there are 0"),
        (("a", "b"), ("en",), "there are 1"),
        (("a",), ("en", "de"), "2 languages .* need as many tokenizers"),
        (("a", "b"), ("en", "en"), "names a language twice"),
    ],
)
def test_tokenizers_and_languages_must_fit(tokenizers: tuple[str, ...], langs: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        TokenizerSpec(tokenizers, langs)


def test_slots_without_a_prompt() -> None:
    with pytest.raises(UsageError, match="goes with a --prompt-format"):
        TokenizerSpec(("a",), prompt="[]")


def test_each_text_goes_to_the_tokenizer_of_its_language(bpe: Path, char: Path) -> None:
    tokenizers = Tokenizers(TokenizerSpec((str(bpe), str(char)), ("en", "de")))
    texts = corpus_texts()
    langs = ["en", "de", "de"] * (len(texts) // 3)
    both = zip(counts(bpe, texts), counts(char, texts), langs, strict=True)
    assert tokenizers.counts(texts, langs) == [en if lang == "en" else de for en, de, lang in both]
    with pytest.raises(RecordRejected, match="bad_field: there is no tokenizer for the language 'fr', only for en, de"):
        tokenizers.counts(["a", "b"], ["en", "fr"])
    with pytest.raises(RecordRejected, match="missing_field: there is no language"):
        tokenizers.counts(["a"], [None])
    alone = Tokenizers(TokenizerSpec((str(bpe),), ("en",)))
    assert alone.counts(["Added."], ["fr"]) == counts(bpe, ["Added."])


def test_folders_and_names(tmp_path: Path, bpe: Path) -> None:
    assert kind_of_tokenizer(str(bpe.parent)) == ("sentencepiece", str(bpe))
    with pytest.raises(UsageError, match="holds no tokenizer"):
        kind_of_tokenizer(str(tmp_path))
    for missing in ("no.model", "no/such/folder/tokenizer.json", "/no", "./no"):
        with pytest.raises(UsageError, match="tokenizer not found"):
            kind_of_tokenizer(missing)
    assert kind_of_tokenizer("owner/name") == ("hf", "owner/name")
    (tmp_path / "tokenizer.json").write_text("{}")
    assert kind_of_tokenizer(str(tmp_path)) == ("hf", str(tmp_path / "tokenizer.json"))
    pytest.importorskip("tokenizers")
    with pytest.raises(UsageError, match="is not a Hugging Face tokenizer"):
        Tokenizers(TokenizerSpec((str(tmp_path),)))


def test_hugging_face(tmp_path: Path) -> None:
    path = train_hf(tmp_path / "tokenizer.json")
    import tokenizers

    model = tokenizers.Tokenizer.from_file(str(path))
    texts = [*corpus_texts(), *awkward_texts(200), ""]
    expected = [len(model.encode(text, add_special_tokens=False).ids) for text in texts]
    model.enable_truncation(3)
    model.enable_padding(length=50)
    start = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    model.post_processor = start
    model.save(str(path))  # none of the three is meant for counting
    found = Tokenizers(TokenizerSpec((str(tmp_path),)))
    assert found.counts(texts, [None] * len(texts)) == expected
    assert expected[-1] == 0
    with pytest.raises(RecordRejected, match="lone surrogate"):
        found.counts(["\ud800"], [None])


def encode(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


def numbers_of(data: bytes, numbers: Numbers) -> list[int]:
    """What a scan of a manifest makes of it."""
    blocks = LineBlocks(Columns(spans=False, digest=False, numbers=numbers))
    blocks.add(data, 0)
    part = blocks.finish(b"", len(data))
    for problem in part.problems:
        raise RecordRejected(problem.reason, problem.detail)
    found: list[int] = part.number.tolist()
    return found


def test_lines_of_a_manifest(bpe: Path, char: Path) -> None:
    spec = TokenizerSpec((str(bpe), str(char)), ("en", "de"))
    tokens = Numbers(TokensOfTexts(spec, "answer", "de"), ("answer", "l"))
    text = "Good morning."
    audio = {"audio_filepath": "a.wav", "duration": 1.5}
    data = encode(
        {**audio, "answer": text, "l": "en"},
        {"answer": text, "l": "de", "text": "3", **audio},
        {**audio, "answer": text},
        {**audio, "answer": ""},
    )
    de = counts(char, [text])[0]
    expected = [*counts(bpe, [text]), de, de, 0]
    assert numbers_of(data, tokens) == expected
    for line, words in (
        ({"text": text}, "missing_field: there is no answer"),
        ({"answer": None}, "missing_field: there is no answer"),
        ({"answer": 5}, "bad_field: answer is 5; it must be text"),
        ({"answer": text, "l": "fr"}, "bad_field: there is no tokenizer for the language 'fr'"),
        ({"answer": text, "l": ["en"]}, 'bad_field: l is \\["en"\\]'),
    ):
        with pytest.raises(RecordRejected, match=words):
            numbers_of(data + encode(audio | line) + data, tokens)
    # What strict JSON has not, Python's json has: read all the same.
    odd = b'{"audio_filepath": "a.wav", "duration": 1.5, "answer": "Good morning.", "snr": NaN}\n'
    assert numbers_of(data + odd + data, tokens) == [*expected, de, *expected]


def test_texts_in_a_field_that_means_something_else(bpe: Path) -> None:
    tokens = Numbers(TokensOfTexts(TokenizerSpec((str(bpe),)), "audio_filepath"), ("audio_filepath", "lang"))
    data = encode({"audio_filepath": "Good morning.", "duration": 1.5}, {"audio_filepath": "Added.", "duration": 2})
    assert numbers_of(data, tokens) == counts(bpe, ["Good morning.", "Added."])
    tokens = Numbers(TokensOfTexts(TokenizerSpec((str(bpe),)), "duration"), ("duration", "lang"))
    with pytest.raises(RecordRejected, match=r"bad_field: duration is 1\.5; it must be text"):
        numbers_of(data, tokens)


def test_cuts_with_numbers_that_no_double_holds(bpe: Path) -> None:
    tokens = TokensOfCuts(TokenizerSpec((str(bpe),)))
    plain = b'{"tracks": [{"cut": {"supervisions": [{"text": "one two"}]}}]}'
    assert tokens(plain.replace(b'{"text"', b'{"custom": {"score": 1e5000}, "text"')) == tokens(plain)


def test_lines_of_cuts(bpe: Path) -> None:
    tokens = TokensOfCuts(TokenizerSpec((str(bpe),)))
    one, two = counts(bpe, ["Added.", "My sister plays the cello."])
    first, second = {"text": "Added.", "language": "en"}, {"text": "My sister plays the cello."}
    silent = {"text": None}
    mixed = {"type": "MixedCut", "tracks": [{"cut": {"supervisions": [first]}}, {"cut": {"supervisions": [second]}}]}
    data = encode({"supervisions": [first]}, {"supervisions": [first, silent, second]}, {"supervisions": [second]})
    assert tokens(data) == [one, one + two, two]
    assert tokens(encode(mixed)) == [one + two]
    cut: dict[str, Any]
    for cut in ({"supervisions": []}, {"supervisions": [silent]}, {"id": "x"}):
        with pytest.raises(RecordRejected, match="missing_field: there is no text of a supervision"):
            tokens(encode(cut))
    with pytest.raises(RecordRejected, match="supervisions of the cut cannot be read"):
        tokens(encode({"supervisions": 3}))
