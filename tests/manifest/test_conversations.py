"""The turns of conversations in four forms, and what cannot be one."""

from typing import Any

import pytest

from prepcli.errors import RecordRejected
from prepcli.manifest.conversations import Turn, turns_of

HELLO = Turn("Assistant", "Hello.")


def user(audio: str, **more: Any) -> Turn:
    return Turn("User", None, audio, **more)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        (
            {
                "conversations": [
                    {"from": "User", "type": "text", "value": "What is said in <sound>?"},
                    {"from": "User", "type": "audio", "value": "a.wav", "duration": 2.5, "offset": 1, "lang": "en"},
                    {"from": "Assistant", "type": "text", "value": "Hello."},
                ]
            },
            [
                Turn("User", "What is said in <sound>?"),
                user("a.wav", offset=1.0, duration=2.5, more={"lang": "en"}),
                HELLO,
            ],
        ),
        (
            {
                "sound": "a.wav",
                "conversations": [
                    {"from": "human", "value": "Listen: <sound>\nand say it."},
                    {"from": "gpt", "value": "Hello."},
                    {"from": "human", "value": "<speech>"},
                ],
            },
            [Turn("User", "Listen:"), user("a.wav"), Turn("User", "and say it."), HELLO, user("a.wav")],
        ),
        (
            {
                "messages": [
                    {"role": "system", "content": "You hear."},
                    {"role": "user", "content": "<audio><audio>Compare."},
                    {"role": "assistant", "content": "Hello."},
                ],
                "audios": ["a.wav", {"path": "file:///b.wav"}],
            },
            [Turn("System", "You hear."), user("a.wav"), user("/b.wav"), Turn("User", "Compare."), HELLO],
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "audio", "audio_url": "a.wav"}, {"type": "text", "text": "What?"}],
                    },
                    {"role": "assistant", "content": "Hello."},
                ]
            },
            [user("a.wav"), Turn("User", "What?"), HELLO],
        ),
        (
            {"messages": [{"role": "user", "content": "<audio>What?"}], "audio": "a.wav"},
            [user("a.wav"), Turn("User", "What?")],
        ),
        (
            {
                "messages": [{"role": "user", "content": [{"type": "audio_url", "audio_url": {"url": "a.wav"}}]}],
                "audios": None,
            },
            [user("a.wav")],
        ),
    ],
)
def test_forms(fields: dict[str, Any], wanted: list[Turn]) -> None:
    assert turns_of(fields) == wanted
    as_nemo = {"conversations": [turn.document() for turn in wanted]}
    assert turns_of(as_nemo) == wanted


def test_further_fields_of_turns_stay() -> None:
    """Texts of all forms but NeMo's had lost them, such as the `loss` of ms-swift; audio in lists its offset, too."""
    said = {"role": "assistant", "content": "<audio> Hello.", "loss": True, "name": None}
    spoken = user("a.wav")._replace(role="Assistant", more={"loss": True})
    assert turns_of({"messages": [said], "audios": ["a.wav"]}) == [spoken, HELLO._replace(more={"loss": True})]
    listed = [
        {"type": "audio", "audio": "a.wav", "text": None, "offset": 1, "lang": "en"},
        {"type": "text", "text": "Hello.", "audio": None, "loss": False},
    ]
    assert turns_of({"messages": [said | {"content": listed}]}) == [
        Turn("Assistant", None, "a.wav", offset=1.0, more={"loss": True, "lang": "en"}),
        HELLO._replace(more={"loss": False}),
    ]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "missing_field: conversations has no turns"),
        ({"messages": []}, "missing_field: messages has no turns"),
        ({"conversations": ["Hello"]}, "bad_field: turn 1: 'Hello' is not an object"),
        (
            {"conversations": [{"from": "narrator", "value": "x"}]},
            "bad_field: turn 1: the role 'narrator'; known are",
        ),
        ({"conversations": [{"from": "User", "value": "<sound>"}]}, "bad_field: turn 1: a placeholder for audio"),
        ({"sound": "a", "conversations": [{"from": "User", "value": "x"}]}, "bad_field: the line has 1 audio, and its"),
        (
            {"sound": ["a", "b"], "conversations": [{"from": "User", "value": "<sound>"}]},
            "bad_field: sound has 2 files",
        ),
        (
            {"audios": ["a"], "messages": [{"role": "user", "content": "<audio><audio>"}]},
            "bad_field: turn 2: a placeh",
        ),
        ({"audios": 5, "messages": [{"role": "user", "content": "<audio>"}]}, "bad_field: 5 in place of a path"),
        (
            {"audios": ["a", "b"], "messages": [{"role": "user", "content": "<audio>"}]},
            "bad_field: the line has 2 audio",
        ),
        (
            {"conversations": [{"from": "User", "type": "video", "value": "x"}]},
            "bad_field: turn 1: the type 'video'",
        ),
        (
            {"conversations": [{"from": "User", "type": "audio", "value": ""}]},
            "bad_field: turn 1: '' in place of a path",
        ),
        (
            {"conversations": [{"from": "User", "type": "audio", "value": "a", "duration": "2"}]},
            "bad_duration: turn 1: duration is '2'",
        ),
        (
            {"conversations": [{"from": "User", "type": "audio", "value": "a", "offset": -1}]},
            "bad_duration: turn 1: offset is -1",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
            "bad_field: turn 1: a content of type 'image'",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "audio", "audio": "a.wav", "text": "x"}]}]},
            "bad_field: turn 1: a content of type 'audio'; it is either text or audio",
        ),
        (
            {"conversations": [{"from": "User", "type": "text", "value": "x"}], "custom": "y"},
            "bad_field: custom is 'y'; NeMo reads only an object",
        ),
        ({"messages": [{"role": "user", "content": []}]}, "bad_field: turn 1: an empty content"),
        (
            {
                "sound": "a.wav",
                "messages": [{"role": "user", "content": "Hear <sound> it"}, {"role": "gpt", "content": 5}],
            },
            "bad_field: turn 4: 5 in place of a text",
        ),
        ({"messages": [{"role": "user", "content": None}]}, "bad_field: turn 1: None in place of a text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "audio", "duration": 2}]}]},
            "bad_field: turn 1: a content of type 'audio'; it has no text, and no audio_url, audio, audio_path, path",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "video", "audio_url": "a.wav"}]}]},
            "bad_field: turn 1: a content of type 'video'; text and audio are read",
        ),
        (
            {"conversations": [{"from": "User", "value": "audio/a.wav"}]},
            "bad_field: turn 1: the text 'audio/a.wav' is the name of an audio file: in NeMo's form, the turn needs",
        ),
    ],
)
def test_what_cannot_be_used_names_its_turn(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(RecordRejected) as caught:
        turns_of(fields)
    assert str(caught.value).startswith(why)


def test_a_text_may_name_an_audio_file_among_others() -> None:
    turns = [{"from": "User", "value": "What is in a.wav"}, {"from": "User", "type": "text", "value": "a.wav"}]
    assert turns_of({"conversations": turns}) == [Turn("User", "What is in a.wav"), Turn("User", "a.wav")]


def test_other_placeholders() -> None:
    fields = {"sound": "a.wav", "conversations": [{"from": "human", "value": "Now [A] and <sound>"}]}
    assert turns_of(fields, ["[A]"]) == [Turn("User", "Now"), user("a.wav"), Turn("User", "and <sound>")]
