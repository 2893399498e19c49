"""The store of the tests, started once per process that runs tests of it."""

import uuid

import pytest

from tests.conftest import MINI_CORPUS
from tests.storage.buckets import Bucket
from tests.storage.object_store import ObjectStore
from tests.support.running import Prepcli, prepcli


@pytest.fixture(scope="module", autouse=True)
def own_clients(forking: None) -> None:
    """Each worker has its own client of the store, as outside of tests."""


@pytest.fixture
def bucket(object_store: ObjectStore) -> Bucket:
    """An empty bucket."""
    return Bucket(object_store, f"bucket-{uuid.uuid4().hex[:12]}")


@pytest.fixture(scope="session")
def stored_corpus(object_store: ObjectStore) -> str:
    """The address of the mini corpus in the store, which tests only read."""
    return Bucket(object_store, "mini-corpus").upload(MINI_CORPUS, "corpus")


@pytest.fixture
def run(object_store: ObjectStore) -> Prepcli:
    """`prepcli ARGUMENTS` in this process, with the store's variables."""

    def call(*arguments: object, **settings: object) -> object:
        environ = object_store.environ | dict(settings.pop("environ", {}))  # type: ignore[call-overload]
        return prepcli(*arguments, environ=environ, **settings)  # type: ignore[arg-type]

    return call  # type: ignore[return-value]
