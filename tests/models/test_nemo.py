"""Reading `.nemo` files where Python is older than NeMo expects."""

import inspect
import tarfile
from pathlib import Path
from typing import Any

import pytest

from prepcli.models.nemo import extraction_filters
from tests.support.tars import write_tar


def test_a_python_whose_tarfile_has_no_filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian 12 has Python 3.11.2: `extract` has no argument `filter`, which NeMo gives."""
    extract = tarfile.TarFile.extract

    def older(self: tarfile.TarFile, member: Any, path: str = "", set_attrs: bool = True) -> None:
        extract(self, member, path, set_attrs)

    write_tar(tmp_path / "a.nemo", {"model_config.yaml": b"a: "})
    monkeypatch.setattr(tarfile.TarFile, "extract", older)
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    with tarfile.open(tmp_path / "a.nemo") as tar:
        with pytest.raises(TypeError, match="filter"):
            tar.extract("model_config.yaml", tmp_path, filter="data")
        with extraction_filters():
            tar.extract("model_config.yaml", tmp_path, filter="data")
    assert (tmp_path / "model_config.yaml").read_bytes() == b"a: "
    assert "filter" not in inspect.signature(tarfile.TarFile.extract).parameters
