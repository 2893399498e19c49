"""The options of `blend`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from prepcli.errors import UsageError, option
from prepcli.interface.options import Option
from prepcli.interface.shared_options import Json, NumWorkers

By = Literal["hours", "records"]


@dataclass(frozen=True, kw_only=True)
class Blend:
    """Mix finished data sets in one input_cfg for NeMo's training configs, with weights and a table of shares.

    A SET is a tarred set, a Shar set, a manifest, lhotse cuts, or an input_cfg (.yaml). Its hours come from the report
    of the run that made it, else they are read from its manifest. NAME may be in groups: en/books. GROUP=:WEIGHT gives
    a group a weight, or a part of a set, such as en/entry0=:0.5. A WEIGHT is used as it is, and then each member of its
    group needs one; the share of a set is the product of the weights of its levels. Without weights, sets and groups
    weigh their hours to the power of the temperature, in each group. Weights that an input_cfg has stay as they are.

    To mix sets for WeNet, name the output OUT.list: it has the lines of their lists. Sets with larger weights are
    repeated, so that each set has its share of the hours.

    Example: prepcli blend en/books=books/ en/calls=calls/ it=it.json mix.yaml --temperature 0.5 --lang it=it
    """

    sets: Annotated[
        tuple[str, ...],
        Option(
            "The data sets, each with a name; NAME=:WEIGHT gives a group a weight.",
            metavar="NAME=SET[:WEIGHT]...",
            is_argument=True,
        ),
    ]
    out: Annotated[Path, Option("Config to write, or OUT.list for WeNet.", metavar="OUT.yaml", is_argument=True)]
    temperature: Annotated[
        tuple[float, ...],
        Option(
            "Exponent of the weights that are not given: 1: in proportion to hours; 0: all equal. For each level of "
            "groups, or one for all.",
            names=("--temperature",),
            shown_default="1",
            minimum=0,
            one_each=True,
        ),
    ] = ()
    by: Annotated[By, Option("Weigh the sets by hours or by number of records.")] = "hours"
    keep: Annotated[
        tuple[str, ...],
        Option(
            "Count only the hours and records for which this is true, as in filter; the sets stay whole.",
            metavar="EXPR",
            one_each=True,
            order=-1,
        ),
    ] = ()
    lang: Annotated[
        tuple[str, ...],
        Option("Tag with the language, of all sets or of one set or group.", metavar="[NAME=]LANG", one_each=True),
    ] = ()
    tag: Annotated[
        tuple[str, ...],
        Option("Tag with any field, of all sets or of one set or group.", metavar="[NAME:]FIELD=VALUE", one_each=True),
    ] = ()
    check: Annotated[
        bool,
        Option("Read the result once with NeMo, where it is installed.", names=("--check/--no-check",)),
    ] = True
    dry_run: Annotated[bool, Option("Print the table and write nothing.")] = False
    overwrite: Annotated[bool, Option("Replace OUT.yaml.")] = False
    as_json: Json = False
    num_workers: NumWorkers = None

    def tags(self) -> list[tuple[str, str, Any]]:
        """The tags of `--lang` and `--tag`: (name of the set or group, field, value); the name "" stands for all sets.

        Raises:
            UsageError: `--lang` is not LANG or NAME=LANG, or `--tag` is not FIELD=VALUE or NAME:FIELD=VALUE.
        """
        found: list[tuple[str, str, Any]] = []
        for one in self.lang:
            name, equals, lang = one.rpartition("=")
            if not lang or (equals and not name):
                raise UsageError(f"{option('--lang')} takes LANG or NAME=LANG, not {one!r}")
            found.append((name, "lang", lang))
        for one in self.tag:
            field, equals, value = one.partition("=")
            name, _, field = field.rpartition(":")
            if not equals or not field:
                raise UsageError(f"{option('--tag')} takes FIELD=VALUE or NAME:FIELD=VALUE, not {one!r}")
            found.append((name, field, value))
        return found
