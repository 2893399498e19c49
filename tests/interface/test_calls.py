"""The current call: the command that continues, and messages with the names of Python."""

from functools import partial
from pathlib import Path

import pytest

from prepcli.errors import arguments_named_by, option, same_command
from prepcli.interface.arguments import argument
from prepcli.interface.calls import called, command_line
from tests.cli.test_building import Draw


def test_the_command_that_does_what_is_left_of_all_ranks() -> None:
    words = ["draw", "--rank=1", "here", "--world-size", "2", "--launch-id", "x", "--tag", "--rank-1", "--overwrite"]
    with called(words, progress=False):
        assert command_line(of_rank=False) == "prepcli draw here --tag --rank-1"
        assert command_line() == "prepcli draw --rank=1 here --world-size 2 --launch-id x --tag --rank-1"


@pytest.mark.parametrize(
    ("words", "shell", "expected"),
    [
        (("--note",), "--note", "note"),
        (("--size",), "--size", "size"),
        (("--size", 3), "--size 3", "size=3"),
        (("--colour", "red"), "--colour red", "colour='red'"),
        (("--path", Path("a b")), "--path a b", "path='a b'"),
        (("--last",), "--last", "last=True"),
        (("--no-frame",), "--no-frame", "frame=False"),
        (("--no-fill",), "--no-fill", "fill=False"),
        (("--other", 3), "--other 3", "--other 3"),
        (("--tag", "x"), "--tag x", "tags='x'"),
    ],
)
def test_messages_for_python(words: tuple[str, object], shell: str, expected: str) -> None:
    assert option(*words) == shell
    with arguments_named_by(partial(argument, Draw)):
        assert option(*words) == expected
    assert option(*words) == shell


def test_what_is_repeated_in_python() -> None:
    assert same_command() == "the same command"
    with arguments_named_by(partial(argument, Draw)):
        assert same_command() == "the same call"
