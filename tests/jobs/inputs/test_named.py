"""Options of data sets that no input uses are refused."""

import pytest

from prepcli.errors import UsageError
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.inputs.named import refuse_unused
from prepcli.jobs.inputs.sets import PARQUET, TARRED, WENET
from prepcli.storage.containers import Catalogue

INPUTS = {"manifest": "m.json", "parquet": Catalogue("p.parquet", kind=PARQUET), "wenet": Catalogue("a", kind=WENET)}


@pytest.mark.parametrize(
    ("options", "users"),
    [
        (SetInput(), {"manifest", "parquet", "wenet"}),
        (SetInput(text_column="x"), {"parquet", "wenet"}),
        (SetInput(split="train"), {"parquet", "wenet"}),
        (SetInput(name_encoding="cp437"), {"wenet"}),
        (SetInput(input_format="parquet"), {"parquet"}),
        (SetInput(input_format="manifest"), {"manifest"}),
    ],
)
def test_one_input_that_uses_an_option_is_enough(options: SetInput, users: set[str]) -> None:
    for name, path in INPUTS.items():
        inputs = [Catalogue("set", kind=TARRED), path]
        if name in users:
            refuse_unused(inputs, options)
        else:
            with pytest.raises(UsageError, match="set is read as a tarred set"):
                refuse_unused(inputs, options)
