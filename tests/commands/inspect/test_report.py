"""The report of inspect as a document."""

import json
from pathlib import Path

import pytest

from prepcli.commands.inspect.report import Inspection
from tests.commands.inspect.conftest import look
from tests.conftest import MINI_CORPUS


@pytest.mark.usefixtures("one_thread")
def test_the_document_is_json(tarred: Path, shar: Path, codes: Path) -> None:
    for path in (tarred, shar, codes, f"{tarred}.prepcli", MINI_CORPUS / "manifest.json"):
        found = look(path)
        assert isinstance(found, Inspection)
        document = json.loads(json.dumps(found.document()))
        assert document["kind"] == found.kind
        assert "columns" not in document
