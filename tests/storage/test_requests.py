"""Requests without a store: which are repeated, and that what has arrived is compared with what was sent."""

import pytest

from prepcli.storage import client, writing
from prepcli.storage.addresses import parse_address
from prepcli.storage.client import ObjectInfo
from prepcli.storage.failures import StoreError

ADDRESS = "s3://bucket/audio_0.tar"


class Upload:
    """Stands for obstore's file."""

    def close(self) -> None:
        pass


@pytest.mark.parametrize("found", [999, 1001])
def test_an_object_of_another_size_is_an_error(found: int, monkeypatch: pytest.MonkeyPatch) -> None:
    uploads = {number: (parse_address(ADDRESS), Upload()) for number in range(2)}
    sizes = iter((found, 1000))
    monkeypatch.setattr(writing, "_uploads", uploads)
    monkeypatch.setattr(writing, "object_info", lambda text: ObjectInfo(text, next(sizes), 0, "an etag"))
    with pytest.raises(StoreError, match=rf"{ADDRESS} has {found:,} bytes at the store, but 1,000 were sent"):
        writing.finish_upload(0, 1000)
    assert writing.finish_upload(1, 1000) == "an etag"
    assert not uploads


@pytest.mark.parametrize(
    ("answer", "is_repeated"),
    [
        ("status code: 400 Bad Request", False),
        ("status code: 408 Request Timeout", True),
        ("status code: 416 Range Not Satisfiable", False),
        ("status code: 429 Too Many Requests", True),
        ("status code: 503 Service Unavailable", True),
        ("error decoding response body", True),
    ],
)
def test_which_requests_are_repeated(answer: str, is_repeated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those that were refused: the answer would be the same."""
    answers = iter((OSError(answer), OSError(answer)))

    def send(_: object) -> str:
        for error in answers:
            raise error
        return "found"

    monkeypatch.setattr(client, "store_of", lambda _: None)
    monkeypatch.setattr("prepcli.storage.client.time.sleep", lambda _: None)
    if is_repeated:
        assert client._request(parse_address(ADDRESS), send) == "found"
        return
    with pytest.raises(StoreError, match=f"{ADDRESS}: the store at .* has failed: "):
        client._request(parse_address(ADDRESS), send)
    assert next(answers, None) is not None, "it was sent once"
