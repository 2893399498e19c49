"""Tokenizers by their names on Hugging Face's hub, against a hub on this machine or none."""

import shutil
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from prepcli.errors import UsageError
from prepcli.tokenizers import hub
from prepcli.tokenizers.counting import Tokenizers, TokenizerSpec
from tests.conftest import write_lines
from tests.support.running import prepcli
from tests.support.tokenizer_models import train_hf
from tests.support.tools import without

pytestmark = without("huggingface_hub")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and neither settings of this machine nor those with which other tests imported the package."""
    for name in (*hub.OFFLINE, "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "https://huggingface.co")
    return tmp_path / "cache"


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A hub at a port where nobody answers."""
    with socket.socket() as bound:  # bound, but not listening: nobody else can take the port
        bound.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        yield address


def look_up(name: str) -> str:
    with pytest.raises(UsageError) as raised:
        Tokenizers(TokenizerSpec((name,)))
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_an_unreachable_hub_is_tried_once(cache: Path, nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []
    connect = socket.create_connection

    def counted(address: tuple[str, int], timeout: float) -> socket.socket:
        attempts.append(address)
        return connect(address, timeout)

    monkeypatch.setattr("socket.create_connection", counted)
    message = look_up("owner/misspelled")
    assert len(attempts) == 1
    assert message == (
        "tokenizer not found: owner/misspelled is neither a file nor a folder, and it cannot be looked up on "
        "127.0.0.1: this machine is offline, or behind a firewall (Connection refused); give a .model or "
        "tokenizer.json file, the folder of one, or the name of a tokenizer on the hub (owner/name)"
    )


@pytest.mark.parametrize(
    "name", ["two words", "a/b/c", "-t", "own er/name", "a--b", "~/name", "größe", "owner/", "n" * 97]
)
def test_what_is_not_a_name_is_not_looked_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.create_connection", lambda *_: pytest.fail("looked up"))
    assert look_up(name).startswith(f"tokenizer not found: {name}; give a .model or tokenizer.json file")


@pytest.mark.parametrize("variable", hub.OFFLINE)
def test_offline_by_the_environment_is_said(cache: Path, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.create_connection", lambda *_: pytest.fail("looked up"))
    monkeypatch.setenv(variable, "1")
    assert f"{variable} is set, so nothing is downloaded" in look_up("owner/name")


def test_a_proxy_is_left_to_find_out(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.create_connection", lambda *_: pytest.fail("looked up"))
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    asked = []

    def download(name: str, file: str) -> str:
        asked.append((name, file))
        raise OSError("the proxy says no\nwith more lines")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert look_up("owner/name").endswith("downloading it from huggingface.co failed: the proxy says no")
    assert asked == [("owner/name", "tokenizer.json")]


def test_the_copy_on_this_machine_is_taken_first(cache: Path, nobody: str, tmp_path: Path) -> None:
    snapshot = cache / "models--owner--name/snapshots/0123"
    snapshot.mkdir(parents=True)
    train_hf(snapshot / "tokenizer.json")
    (cache / "models--owner--name/refs").mkdir()
    (cache / "models--owner--name/refs/main").write_text("0123")
    assert Tokenizers(TokenizerSpec(("owner/name",))).counts(["a b"], [None]) > [0]
    shutil.rmtree(cache)
    assert "cannot be looked up" in look_up("owner/name")


class Nothing(BaseHTTPRequestHandler):
    """A hub that has only one repository, without a tokenizer.json."""

    def do_HEAD(self) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", "EntryNotFound" if "/known/" in self.path else "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def empty_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Nothing) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        for module in ("constants", "file_download"):  # the latter has a copy before version 1
            monkeypatch.setattr(f"huggingface_hub.{module}.HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
        yield
        server.shutdown()


@pytest.mark.parametrize(
    ("name", "words"),
    [("owner/none", "127.0.0.1 has no public owner/none;"), ("owner/known", "has no tokenizer.json;")],
)
def test_what_the_hub_does_not_have(cache: Path, empty_hub: None, name: str, words: str) -> None:
    assert words in look_up(name)


def test_a_hub_that_has_not_answered_is_not_one_without_the_file(
    cache: Path, empty_hub: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package's error for it comes from that for a missing file."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    said = look_up("owner/known")
    assert "downloading it from 127.0.0.1 failed: " in said
    assert "offline mode is enabled" in said


def test_files_of_which_one_is_here_need_no_hub(cache: Path, nobody: str) -> None:
    snapshot = cache / "models--owner--name/snapshots/0123"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (cache / "models--owner--name/refs").mkdir()
    (cache / "models--owner--name/refs/main").write_text("0123")
    found = hub.check_reachable("owner/name", "tokenizer.json", "config.json")
    assert found == str(snapshot / "config.json")


def test_the_command(cache: Path, nobody: str, tmp_path: Path) -> None:
    manifest = write_lines(tmp_path / "m.json", [{"audio_filepath": "a", "duration": 1.0, "text": "x"}] * 3)
    done = prepcli("estimate-bins-2d", manifest, "-t", "tokenzier", "-b", 1)
    assert (done.code, done.out) == (2, "")
    assert "tokenzier is neither a file nor a folder, and it cannot be looked up on" in done.error_line
