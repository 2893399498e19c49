"""Options of data sets that no input uses are refused."""

import pytest

from prepcli.errors import UsageError
from prepcli.interface.options import declared
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.inputs.kinds import INPUT_KINDS, PARQUET, TARRED, WENET
from prepcli.jobs.inputs.named import refuse_unused
from prepcli.storage.containers import Catalogue

INPUTS = {"manifest": "m.json", "parquet": Catalogue("p.parquet", kind=PARQUET), "wenet": Catalogue("a", kind=WENET)}


def test_each_value_of_input_format_reads_a_kind() -> None:
    """The values stand where `--help` finds them without the kinds."""
    (wanted,) = (one for one in declared(SetInput) if one.name == "input_format")
    assert {name for kind in INPUT_KINDS.values() for name in kind.formats} == set(wanted.choices)


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
