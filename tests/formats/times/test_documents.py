"""JSON with times, as Whisper, whisperX, faster-whisper and FunASR write it."""

import json

import pytest

from prepcli.errors import RecordRejected
from prepcli.formats.times.documents import timed_of
from prepcli.formats.times.timed import Timed, text_of
from tests.support.seeds import draw_for


def word(start: float, end: float, text: str, speaker: str | None = None) -> Timed:
    return Timed(start, end, text, speaker, is_word=True)


def test_whisper_keeps_the_blanks_of_its_words() -> None:
    words = [
        {"word": " A", "start": 0.0, "end": 0.4, "probability": 0.9},
        {"word": " well", "start": 0.4, "end": 0.8, "probability": 0.9},
        {"word": "-known", "start": 0.8, "end": 1.0, "probability": 0.9},
        {"word": " one.", "start": 1.0, "end": 1.0, "probability": 0.9},
    ]
    document = {
        "text": " A well-known one.",
        "segments": [{"id": 0, "start": 0.0, "end": 1.2, "text": " A well-known one.", "words": words}],
        "language": "en",
    }
    (line,) = timed_of(document)
    assert line[:4] == (0.0, 1.2, "A well-known one.", None)
    assert line.words == (word(0, 0.4, " A"), word(0.4, 0.8, " well"), word(0.8, 1.0, "-known"), word(1, 1, " one."))
    assert text_of(line.words[1:3]) == "well-known"


def test_whisperx_words_without_times_are_joined_to_their_neighbours() -> None:
    segment = {
        "start": 0.5,
        "end": 3.0,
        "text": " In 2014 he paid £3 twice.",
        "words": [
            {"word": "In"},
            {"word": "2014"},
            {"word": "he", "start": 1.0, "end": 1.2, "score": 0.9, "speaker": "SPEAKER_00"},
            {"word": "paid", "start": 1.3, "end": 1.5, "score": 0.9},
            {"word": "£3", "start": None, "end": None},
            {"word": "twice.", "start": 2.0, "end": 2.5, "score": 0.9},
        ],
        "speaker": "SPEAKER_00",
    }
    document = {"segments": [segment], "word_segments": segment["words"]}
    (line,) = timed_of(document)
    assert line[:4] == (0.5, 3.0, "In 2014 he paid £3 twice.", "SPEAKER_00")
    assert [item.text for item in line.words] == ["In 2014 he", " paid £3", " twice."]
    assert line.words[0].speaker == "SPEAKER_00"
    assert text_of(line.words) == line.text
    words = timed_of({"word_segments": segment["words"]})
    assert text_of(words) == line.text
    assert all(item.is_word for item in words)


def test_a_word_extends_over_those_without_times_that_are_joined_to_it() -> None:
    """They are said in what was a pause: a segment could end before them, and have their text."""
    words = [{"word": "In"}, {"word": "2014"}, {"word": "he", "start": 1.5, "end": 2}, {"word": "paid"}, {"word": "£3"}]
    words += [{"word": "twice", "start": 5, "end": 5.5}, {"word": "or", "start": 6, "end": 6.2}, {"word": "4"}]
    (line,) = timed_of(
        {"segments": [{"start": 0.5, "end": 9, "text": "In 2014 he paid £3 twice or 4", "words": words}]}
    )
    assert line.words == (word(1.5, 5, "In 2014 he paid £3"), word(5, 5.5, " twice"), word(6, 9, " or 4"))
    assert timed_of({"words": words})[1:] == [word(5, 5.5, " twice"), word(6, 6.2, " or 4")]
    overlapping = [{"word": "a", "start": 1, "end": 3}, {"word": "5"}, {"word": "b", "start": 2, "end": 4}]
    assert timed_of({"words": overlapping}) == [word(1, 3, " a 5"), word(2, 4, " b")]


def test_a_segment_without_times_lies_where_its_words_lie() -> None:
    segment = {"start": None, "end": None, "text": "a b", "words": [{"word": "a", "start": 1, "end": 2}, {"word": "b"}]}
    assert timed_of({"segments": [segment]}) == [Timed(1, 2, "a b", words=(word(1, 2, "a b"),))]
    del segment["words"]
    with pytest.raises(RecordRejected, match=r"segments\[0\]: it has no start and end"):
        timed_of({"segments": [segment]})


def test_words_of_writings_without_blanks() -> None:
    words = [{"word": char, "start": number, "end": number + 1} for number, char in enumerate("你好世界")]
    (line,) = timed_of({"segments": [{"start": 0, "end": 4, "text": "你好,世界", "words": words}]})
    assert text_of(line.words[:2]) == "你好,"


def test_words_are_as_in_the_text_of_their_line() -> None:
    words = [{"word": word, "start": at, "end": at + 1} for at, word in enumerate(("he", "said", "it's", "done"))]
    segment = {"start": 0, "end": 4, "text": 'He said: (It\'s) "done"!', "words": words}
    (line,) = timed_of({"segments": [segment]})
    assert [item.text for item in line.words] == ["He", " said:", " (It's)", ' "done"!']


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("he said it is done", ["he", "said", "it's", "done"], [" he", " said", " it's", " done"]),
        ("what a rat sat", ["at", "sat"], [" at", " sat"]),
        ("a b c", ["a", "b"], [" a", " b"]),
        ("你好世界", ["妳", "好", "世界"], ["妳", "好", "世界"]),
    ],
)
def test_words_stay_as_they_are_if_the_text_has_others(text: str, words: list[str], expected: list[str]) -> None:
    items = [{"word": word, "start": at, "end": at + 1} for at, word in enumerate(words)]
    (line,) = timed_of({"segments": [{"start": 0, "end": 9, "text": text, "words": items}]})
    assert [item.text for item in line.words] == expected


def test_faster_whisper_as_a_list_of_segments() -> None:
    segments = [
        {
            "id": 1,
            "seek": 0,
            "start": 0.0,
            "end": 2.0,
            "text": " Hello.",
            "tokens": [1],
            "words": None,
            "temperature": 0,
        },
        {"id": 2, "seek": 0, "start": 2.0, "end": 2.0, "text": "", "tokens": [], "words": [], "temperature": 0},
    ]
    assert timed_of(segments) == [Timed(0, 2, "Hello.")]


def test_funasr_in_milliseconds() -> None:
    stamps = [[0, 200], [200, 400], [500, 900], [1000, 1200], [1200, 1500]]
    (line,) = timed_of([{"key": "talk", "text": "你好 world,再见。", "timestamp": stamps}])
    assert line[:3] == (0, 1.5, "你好 world,再见。")
    assert [item.text for item in line.words] == ["你", "好", " world,", "再", "见。"]
    assert [(item.start, item.end) for item in line.words] == [(a / 1000, b / 1000) for a, b in stamps]
    (line,) = timed_of({"text": "a b c", "timestamp": [[0, 100], [100, 900]]})
    assert line == Timed(0, 0.9, "a b c"), "no word has a time that is not its own"


def test_sentences_of_funasr() -> None:
    sentence = {"text": "你好,", "start": 100, "end": 900, "timestamp": [[100, 500], [500, 900]], "spk": 0}
    document = {"key": "talk", "text": "你好,", "timestamp": [[100, 500], [500, 900]], "sentence_info": [sentence]}
    expected = [Timed(0.1, 0.9, "你好,", "0", (word(0.1, 0.5, "你"), word(0.5, 0.9, "好,")))]
    assert timed_of([document]) == timed_of(document) == expected
    sentence["sentence"] = sentence.pop("text")  # as with spk_mode="vad_segment"; it had no text
    assert timed_of(document) == expected
    sentence["timestamp"] = []
    assert timed_of(document) == [Timed(0.1, 0.9, "你好,", "0")]
    sentence |= {"text": ["你", "好"], "timestamp": [[100, 500], [500, 900]]}
    assert timed_of(document)[0].text == "你 好"


def test_words_and_alignments_alone() -> None:
    words = [word(0, 1, " a"), word(1, 2, " b")]
    listed = [{"word": "a", "start": 0, "end": 1}, {"word": "b", "start": 1, "end": 2}]
    assert timed_of({"words": listed}) == timed_of(listed) == timed_of({"alignment": listed}) == words
    assert timed_of({"alignment": {"word": [["a", 0, 1, None], ["b", 1, 1, None]]}}) == words


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"text": "no times"}, "talk.json: it has no segments"),
        ("x", "it has no segments"),
        (
            [{"timestamp": [[0, 1]], "text": "a", "key": key} for key in "ab"],
            "talk.json: it has several recordings, and their `key` is not the first",
        ),
        ({"segments": [1]}, "talk.json: segments[0]: it is not an object"),
        ({"segments": [{"start": 1, "end": 0, "text": "a"}]}, "segments[0]: it ends at 0 s"),
        ({"segments": [{"start": "1", "end": 2, "text": "a"}]}, "its times are ['1', 2], not two numbers"),
        ({"segments": [{"start": True, "end": 2, "text": "a"}]}, "not two numbers"),
        ({"segments": [{"start": 0, "end": 10**400, "text": "a"}]}, "not two numbers"),
        ({"segments": [{"start": 0, "end": float("nan"), "text": "a"}]}, "not two numbers"),
        ({"segments": [{"start": 0, "end": 1, "text": 5}]}, "its text is 5, not a string"),
        ({"segments": [{"start": 0, "end": 1, "text": "a", "speaker": 0.5}]}, "its speaker is 0.5"),
        ({"segments": [{"start": 0, "end": 1, "text": "a", "words": 5}]}, "its words are not a list"),
        (
            {"segments": [{"start": 0, "end": 1, "text": "a", "words": [5]}]},
            "segments[0][words][0]: it is not an object",
        ),
        ({"words": [{"word": "a"}]}, "words: no word has times"),
        ({"text": "a", "timestamp": [[1]]}, "not two numbers"),
        ({"text": "a", "timestamp": []}, "the list of timestamps is empty"),
    ],
)
def test_damaged(document: object, message: str) -> None:
    with pytest.raises(RecordRejected) as rejected:
        timed_of(document, "talk.json")
    assert message in rejected.value.detail


def test_no_text_is_lost_whatever_times_are_missing() -> None:
    draw = draw_for("test_no_text_is_lost_whatever_times_are_missing")
    for _ in range(500):
        chosen = draw.choices(("a", "b-c", "don't", "42", "é.", "你", "İx"), k=draw.randrange(1, 9))
        said = [draw.choice(("{}", "({})", '"{}', "{}?!", "- {}")).format(text.title()) for text in chosen]
        whisper_like = draw.random() < 0.5
        words = [{"word": f" {text}" if whisper_like else text} for text in chosen]
        timed = sorted(draw.sample(range(len(words)), draw.randrange(len(words) + 1)))
        for index in timed:
            words[index] |= {"start": index, "end": index + 1}  # type: ignore[dict-item]
        segment = {"start": 0, "end": 99, "text": " ".join(said if not whisper_like else chosen), "words": words}
        (line,) = timed_of(json.loads(json.dumps({"segments": [segment]})))
        assert line.text == segment["text"]
        assert text_of(line.words) == (line.text if timed else "")
        assert [item.start for item in line.words] == timed


def assemblyai(**more: object) -> dict[str, object]:
    """A result of AssemblyAI, whose words and utterances have milliseconds."""
    words = [
        {"text": "Smoke", "start": 250, "end": 650, "confidence": 0.9, "speaker": "A"},
        {"text": "rises.", "start": 730, "end": 59_500, "confidence": 0.9, "speaker": "A"},
    ]
    return {"id": "1", "status": "completed", "text": "Smoke rises.", "words": words, "utterances": None} | more


def test_milliseconds_of_assemblyai_show_beside_the_length_of_the_audio() -> None:
    """They were read as seconds: the first minutes of an hour had the words of its first seconds."""
    expected = (word(0.25, 0.65, " Smoke", "A"), word(0.73, 59.5, " rises.", "A"))
    assert timed_of(assemblyai(audio_duration=60), "talk.json") == list(expected)
    utterance = {"start": 250, "end": 59_500, "text": "Smoke rises.", "speaker": "A", "words": assemblyai()["words"]}
    (line,) = timed_of(assemblyai(audio_duration=59, utterances=[utterance]), "talk.json")
    assert line[:4] == (0.25, 59.5, "Smoke rises.", "A")
    assert line.words == (expected[0]._replace(text="Smoke"), expected[1])
    seconds = {"audio_duration": 60, "segments": [{"start": 0, "end": 61, "text": "a"}]}
    assert timed_of(seconds)[0][:2] == (0, 61), "the length is rounded"


@pytest.mark.parametrize("seconds", [58, 40, 3, 29_000])
def test_a_length_that_shows_no_unit(seconds: float) -> None:
    """Neither seconds nor milliseconds, or both, would lie in the audio."""
    document = {
        "audio_duration": seconds,
        "words": [{"word": "a", "start": 1, "end": 60 if 9 < seconds < 99 else 59_500}],
    }
    with pytest.raises(RecordRejected, match="milliseconds") as rejected:
        timed_of(document, "talk.json")
    assert rejected.value.detail.endswith("divide them by 1,000, or give the audio that they are of")
