"""`verify` over Parquet files: fields are those that the gate takes."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.conftest import SHORT_CORPUS
from tests.support.running import prepcli


def test_a_field_that_readers_reject(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert prepcli("manifest-to-parquet", SHORT_CORPUS / "manifest.json", out).code == 0
    path = out / "data-000000.parquet"
    table = pq.read_table(path)
    place = table.schema.get_field_index("text")
    numbers = pa.array([None, *range(1, len(table))], pa.int64())
    pq.write_table(table.set_column(place, "text", numbers), path)
    (tmp_path / "out.prepcli").rename(tmp_path / "elsewhere")
    done = prepcli("verify", out, "--json")
    assert done.code == 1
    assert len(done.json["problems"]) == 47  # null is missing, which is none
    assert done.json["problems"][0] == "data-000000.parquet: row 1: text is 1; it must be a string"
