"""The Hugging Face hub, by a server on loopback: listings, ranges, redirects, tokens, and what goes wrong."""

import threading
from collections.abc import Iterator

import pytest

from prepcli.errors import InputChangedError, UsageError
from prepcli.storage import client, hub
from prepcli.storage.addresses import parse_address
from prepcli.storage.failures import StoreError
from tests.support.hub import Hub, hub_server

TOKEN = "hf_a-token-that-nobody-may-print"
FILES = {f"data/part-{number}.bin": bytes(range(256)) * (number + 1) for number in range(5)} | {"README.md": b"read me"}


def commit_of(text: str) -> str:
    return hub.commit_of(parse_address(text))


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub_server() as found:
        for name, value in found.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/nonexistent")
        yield found


def test_a_listing_has_all_pages(site: Hub) -> None:
    commit = site.push("own/set", FILES)
    address = parse_address(f"hf://datasets/own/set@{commit}")
    found = client.list_objects(str(address))
    assert {one.address: one.num_bytes for one in found} == {f"{address}/{name}": len(FILES[name]) for name in FILES}
    assert len(site.asked) == 4  # two entries a page, one of them the folder
    assert client.list_folder(str(address)) == (["data"], [one for one in found if one.address.endswith("README.md")])
    assert client.list_objects(f"{address}/nothing") == []


def test_files_of_a_commit_are_known_from_its_listing(site: Hub) -> None:
    commit = site.push("own/set", FILES)
    client.list_objects(f"hf://datasets/own/set@{commit}/data")
    site.asked.clear()
    assert client.object_info(f"hf://datasets/own/set@{commit}/data/part-3.bin").num_bytes == 1024
    assert site.asked == []


@pytest.mark.parametrize("ignores_ranges", [False, True])
def test_ranges(site: Hub, ignores_ranges: bool) -> None:
    site.ignores_ranges = ignores_ranges
    site.push("own/set", FILES)
    address, data = "hf://datasets/own/set/data/part-4.bin", FILES["data/part-4.bin"]
    assert client.read_range(address, 100, 300) == data[100:400]
    assert client.read_range(address, 1200, 300) == data[1200:]
    assert client.read_range(address, 5000, 300) == b""
    assert client.read_object(address) == data
    beginning, info = client.read_beginning(address, 10)
    assert (beginning, info.num_bytes) == (data[:10], 1280)
    if not ignores_ranges:
        assert "all" not in site.ranges


def test_names_with_other_characters(site: Hub) -> None:
    site.push("own/set", {"naïve, 50 %/a+b #1?.bin": b"content"})
    assert client.read_object("hf://datasets/own/set/naïve, 50 %/a+b #1?.bin") == b"content"
    assert len(client.list_objects("hf://datasets/own/set/naïve, 50 %")) == 1


def test_the_token_goes_to_the_hub_alone(site: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    site.push("own/set", FILES)
    site.tokens["own/set"] = TOKEN
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert client.read_object("hf://datasets/own/set/README.md") == b"read me"
    assert client.list_objects("hf://datasets/own/set")
    assert set(site.authorized) == {("hub", f"Bearer {TOKEN}")}
    monkeypatch.setenv("HF_TOKEN", f"{TOKEN}\x07")
    with pytest.raises(UsageError, match="characters that no token has") as caught:
        client.read_object("hf://datasets/own/set/README.md")
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("hf://datasets/own/gated/a", "the data set is gated; set HF_TOKEN .* accept the terms .*/datasets/own/gated"),
        ("hf://datasets/own/other/a", "is private or gated, or does not exist; set HF_TOKEN"),
        ("hf://datasets/own/set@v7/a", "own/set has no revision v7"),
        ("hf://datasets/own/set@refs/convert/parquet/a", "its copy in Parquet has not been made"),
    ],
)
def test_refusals(site: Hub, address: str, message: str) -> None:
    site.push("own/set", FILES)
    site.push("own/gated", FILES)
    site.tokens["own/gated"] = TOKEN
    for ask in (client.object_info, client.list_objects, client.read_object, commit_of):
        site.refs.setdefault(("own/set", "main"), "")
        with pytest.raises(UsageError, match=message) as caught:
            ask(address)
        assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(site: Hub) -> None:
    site.push("own/set", FILES)
    for ask in (client.object_info, client.read_object):
        for path in ("nothing", "data"):
            with pytest.raises(FileNotFoundError):
                ask(f"hf://datasets/own/set/{path}")
    with pytest.raises(FileNotFoundError):
        client.object_info("hf://datasets/own/set")


@pytest.mark.parametrize(
    "faults",
    [
        {"refusals": [(429, {"Retry-After": "0"}), (503, {})]},
        {"refusals": [(429, {"RateLimit": '"api";r=0;t=0'}), (408, {})]},
        {"store_refusals": [(403, {}), (500, {})]},  # the address of a redirect may have expired
        {"cut_after": [0, 17]},
    ],
)
def test_what_another_attempt_avoids(site: Hub, faults: dict[str, list]) -> None:
    site.push("own/set", FILES)
    for name, value in faults.items():
        setattr(site, name, list(value))
    assert client.read_range("hf://datasets/own/set/data/part-4.bin", 0, 1280) == FILES["data/part-4.bin"]
    assert not (site.refusals or site.store_refusals or site.cut_after)


def test_a_listing_is_asked_for_again(site: Hub) -> None:
    site.push("own/set", FILES)
    site.refusals = [(502, {})]
    assert len(client.list_objects("hf://datasets/own/set")) == len(FILES)


def test_what_no_attempt_avoids(site: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    site.push("own/set", FILES)
    site.refusals = [(429, {"Retry-After": "3600"})]
    with pytest.raises(StoreError, match=r"status 429; .*asks to wait 3,600 s"):
        client.object_info("hf://datasets/own/set/README.md")
    site.refusals = [(400, {})]
    with pytest.raises(StoreError, match="status 400"):
        client.object_info("hf://datasets/own/set/README.md")
    monkeypatch.setenv("PREPCLI_STORE_PATIENCE", "0.2")
    site.refusals = [(503, {})] * 50
    with pytest.raises(StoreError, match="status 503"):
        client.object_info("hf://datasets/own/set/README.md")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(StoreError, match=r"the hub at http://127\.0\.0\.1:9 cannot be reached: .*refused"):
        client.object_info("hf://datasets/own/set/README.md")


def test_the_content_of_a_branch_that_changes(site: Hub) -> None:
    site.push("own/set", FILES)
    address = "hf://datasets/own/set/README.md"
    info = client.object_info(address)
    assert client.read_range(address, 0, 4, info.etag) == b"read"
    site.push("own/set", FILES | {"README.md": b"read it"})
    with pytest.raises(InputChangedError, match="was changed during the run"):
        client.read_range(address, 0, 4, info.etag)


def test_a_listing_that_continues_elsewhere(site: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    site.push("own/set", FILES)
    site.url = site.store_url
    with pytest.raises(UsageError, match="continues at another host"):
        client.list_objects("hf://datasets/own/set")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("HF_ENDPOINT", "hub.example", "HF_ENDPOINT must be the address of a hub"),
        ("HF_ENDPOINT", "http://[::1", "HF_ENDPOINT must be the address of a hub"),
        ("HF_ENDPOINT", "http://hub.example:port", "HF_ENDPOINT must be the address of a hub"),
        ("HF_HUB_OFFLINE", "1", "HF_HUB_OFFLINE is set"),
    ],
)
def test_settings(name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=message):
        client.object_info("hf://datasets/own/set/README.md")


def test_a_server_of_another_kind(site: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "push", None)
    site.refs["own/set", "main"] = "0"
    with pytest.raises(UsageError, match="does not answer as a Hugging Face hub"):
        commit_of("hf://datasets/own/set")


def test_threads_share_connections(site: Hub) -> None:
    site.push("own/set", FILES)
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(client.read_object("hf://datasets/own/set/README.md")))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [b"read me"] * 12
    assert hub._session.cache_info().currsize == 1
