"""One data set of each kind, made by the commands that people use."""

from pathlib import Path

import pytest

from prepcli.commands.inspect.command import look_at
from prepcli.commands.inspect.options import InspectOptions
from prepcli.commands.inspect.report import Inspection
from tests.conftest import MINI_CORPUS
from tests.support.running import prepcli
from tests.support.toy_codec import use_toy_codec


def look(path: object, **options: object) -> Inspection:
    return look_at(str(path), InspectOptions(**options))  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def tarred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini corpus in four tars; one of its 49 records is a reject."""
    folder = tmp_path_factory.mktemp("made")
    manifest = folder / "with_reject.json"
    bad = '{"audio_filepath": "nowhere.flac", "duration": 1.0, "text": "gone"}\n'
    manifest.write_text((MINI_CORPUS / "manifest.json").read_text() + bad)
    done = prepcli(
        "manifest-to-tarred", manifest, folder / "tarred", "--num-shards", 4, "--audio-base-dir", MINI_CORPUS
    )
    assert done.code == 0, done.err
    return folder / "tarred"


@pytest.fixture(scope="session")
def shar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini corpus with contexts in three Shar shards."""
    out = tmp_path_factory.mktemp("made") / "shar"
    done = prepcli("manifest-to-shar", MINI_CORPUS / "manifest_with_context.json", out, "--shard-size", 16)
    assert done.code == 0, done.err
    return out


@pytest.fixture(scope="session")
def codes(shar: Path) -> Path:
    """The codes of that set by the tests' codec, in a directory of their own."""
    out = shar.parent / "coded"
    arguments = ["extend-codec-codes", shar, "--codec-model", "toy", "--codec-name", "toy", "--output-dir", out]
    with pytest.MonkeyPatch.context() as patch:
        use_toy_codec(patch.setattr)
        done = prepcli(*arguments, "--devices", "cpu")
    assert done.code == 0, done.err
    return out / "codes_toy"
