"""Requests without a store: which are repeated, and that what has arrived is compared with what was sent."""

import hashlib
from types import SimpleNamespace

import pytest

from prepcli.engine.publishing import output_files
from prepcli.storage import client
from prepcli.storage.addresses import ObjectInfo, parse_address
from prepcli.storage.failures import StoreError, translated

ADDRESS = "s3://bucket/audio_0.tar"


class Parts:
    """Stands for obstore's file."""

    def __init__(self) -> None:
        self.is_closed = False
        self.aborted_by: object = None
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def closed(self) -> bool:
        return self.is_closed

    def __exit__(self, kind: object, *_: object) -> None:
        self.aborted_by = kind


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> list[Parts]:
    """The files of all uploads in parts."""
    made: list[Parts] = []

    def open_writer(*_: object, **__: object) -> Parts:
        made.append(Parts())
        return made[-1]

    monkeypatch.setattr(client, "obstore_package", lambda: SimpleNamespace(open_writer=open_writer))
    monkeypatch.setattr(client, "store_of", lambda _: None)
    return made


def uploaded(data: bytes) -> int:
    number = client.open_upload(ADDRESS)
    client.write_upload(number, data)
    return number


@pytest.mark.parametrize("found", [999, 1001])
def test_an_object_of_another_size_is_an_error(found: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "put_object", lambda text, data: "of another kind")
    for send in (
        lambda: client.put_file(ADDRESS, bytes(1000), 1000),
        lambda: client.finish_upload(uploaded(bytes(1000)), 1000),
    ):
        sizes = iter((found, 1000))
        monkeypatch.setattr(client, "object_info", lambda text, sizes=sizes: ObjectInfo(text, next(sizes), 0, "etag"))
        with pytest.raises(StoreError, match=rf"{ADDRESS} has {found:,} bytes at the store, but 1,000 were sent"):
            send()
        assert send() == "etag"
    assert not client._uploads


def test_all_that_is_written_is_sent(parts: list[Parts], monkeypatch: pytest.MonkeyPatch) -> None:
    """In one request up to a part, then in parts."""
    sent: list[bytes] = []
    monkeypatch.setattr(client, "PART_BYTES", 3)

    def put(text: str, data: bytes) -> str:
        sent.append(data)
        return "etag"

    monkeypatch.setattr(client, "put_object", put)
    monkeypatch.setattr(output_files, "call", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(output_files, "SENT_BYTES", 2)
    for content, pieces in ((b"abc", 0), (b"abcdefgh", 1)):
        file = output_files.UploadedFile(ADDRESS)
        for one in content:
            file.write(bytes([one]))
        assert (file.close().num_bytes, len(parts)) == (len(content), pieces)
        info = ObjectInfo(ADDRESS, len(content), 0, "e")
        monkeypatch.setattr(client, "object_info", lambda text, info=info: info)
        assert file.publish() == "e"
        file.discard()
    assert (sent, parts[0].written, parts[0].is_closed, parts[0].aborted_by) == ([b"abc"], b"abcdefgh", True, None)


def test_an_etag_that_is_the_md5_of_what_was_sent_needs_no_further_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an object in one request: the store has computed it from what has arrived."""
    monkeypatch.setattr(client, "put_object", lambda text, data: hashlib.md5(data).hexdigest())
    monkeypatch.setattr(client, "object_info", None)
    assert client.put_file(ADDRESS, b"hello", 5) == "5d41402abc4b2a76b9719d911017c592"


def test_the_size_counts_even_if_the_etag_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that were lost before they were sent."""
    monkeypatch.setattr(client, "put_object", lambda text, data: hashlib.md5(data).hexdigest())
    monkeypatch.setattr(client, "object_info", lambda text: ObjectInfo(text, 5, 0, "etag"))
    with pytest.raises(StoreError, match="has 5 bytes at the store, but 6 were sent"):
        client.put_file(ADDRESS, b"hello", 6)


def test_only_an_upload_that_was_not_finished_is_aborted(parts: list[Parts]) -> None:
    """obstore removes the parts of a file that is left by an exception."""
    for is_finished in (False, True):
        number = uploaded(bytes(1000))
        parts[-1].is_closed = is_finished
        for _ in range(2):  # another time is nothing
            client.abort_upload(number)
        assert parts[-1].aborted_by is (None if is_finished else InterruptedError)
    assert not client._uploads


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

    def send(*_: object) -> str:
        for error in answers:
            raise error
        return "found"

    monkeypatch.setattr(client, "store_of", lambda _: None)
    monkeypatch.setattr("prepcli.storage.failures.time.sleep", lambda _: None)
    if is_repeated:
        assert client._request(parse_address(ADDRESS), send) == "found"
        return
    with pytest.raises(StoreError, match=f"{ADDRESS}: the store at .* has failed: "):
        client._request(parse_address(ADDRESS), send)
    assert next(answers, None) is not None, "it was sent once"


def test_no_message_repeats_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "open/sesame")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token=")
    error = OSError("Generic S3 error: Error performing GET - HTTP error: no header open/sesame token=")
    message = str(translated(error, parse_address(ADDRESS), "AWS"))
    assert message == f"{ADDRESS}: the store at AWS has failed: no header *** ***; check that it runs"
