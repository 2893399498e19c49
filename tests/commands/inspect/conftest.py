"""One data set of each kind, made by the commands that people use."""

import shutil
from pathlib import Path

import pytest

from prepcli.commands.inspect.command import inspect
from prepcli.commands.inspect.report import Inspection
from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.running import prepcli
from tests.support.shar_sets import with_contexts
from tests.support.toy_codec import use_toy_codec


def look(path: object, **options: object) -> Inspection:
    return inspect(str(path), **options)  # type: ignore[arg-type]


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


EVIL = "</td></svg></title><script>document.title = 'OWNED'</script><img src=x onerror=\"document.title='OWNED'\">"


EVIL_FILE = '"><img src=x onerror="document.title=\'OWNED\'"> .flac'


LONG = "long_" * 2000


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about records with contexts, the first of which holds what a page must not obey."""
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(MINI_CORPUS, folder / "audio")
    shutil.copy(MINI_CORPUS / "s01/s01_u1.flac", folder / "audio" / EVIL_FILE)
    records = with_contexts(read_lines(MINI_CORPUS / "manifest.json"))
    for number, record in enumerate(records):
        record["context_speaker_similarity"] = 0.5 + number / 100
    records[0] |= {"text": EVIL, "speaker": EVIL, "lang": EVIL, EVIL: "x", "more": {"a": [EVIL, "$x_1$"]}}
    records[1] |= {"text": "看 $\\frac{1}{0}$ \x00\x1b", "speaker": "名 $\\bad{$"}
    records[2] |= {"audio_filepath": EVIL_FILE, "duration": 0.25}  # the two shortest records are outliers
    records[3] |= {"audio_filepath": "missing" + EVIL_FILE, "duration": 0.5}
    records[4] |= {"text": LONG, "speaker": LONG, "audio_filepath": f"{LONG}.flac", LONG: LONG}
    manifest = write_lines(folder / "<b>&amp; m.json", records)
    done = prepcli("inspect", manifest, "--audio-base-dir", folder / "audio", "--html", folder / "page.html")
    assert (done.code, done.err) == (0, "")
    return folder / "page.html"
