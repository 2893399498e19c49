"""Writes `train_ds.yaml` of a tarred set for both of NeMo's loaders, and makes the notes on shards for its report."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from prepcli.commands.manifest_to_tarred.layout import TarredLayout
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.errors import option
from prepcli.formats.tarred import ExistingSet, manifest_name
from prepcli.formats.train_ds import write_train_ds
from prepcli.storage.paths import AnyPath, absolute

TARS = "tarred_audio_filepaths"
MANIFESTS = "manifest_filepath"
WORKERS = (2, 4, 8)
"""Common numbers of GPUs among which shards are divided."""


def write_sections(
    writer: UnitWriter,
    command: str,
    layout: TarredLayout,
    base: ExistingSet | None,
    markers: Sequence[Marker],
    details: Mapping[str, Any],
    bins: Mapping[str, Any],
) -> str:
    """Write `train_ds.yaml` of a run; returns its path.

    Args:
        writer: writes the files of the final merge.
        command: name of the command.
        layout: the layout with the sets of the run: one, or one per static bucket.
        base: the set to which records are added, if any.
        markers: the markers of all units, in order.
        details: the summary, with the paths of the tars and manifests.
        bins: the keys of the config for bucketing.
    """
    name = manifest_name(base.version + 1 if base else 0)
    whole = [writer.workspace.out / f"{bucket.folder}{name}" for bucket in layout.sets]
    others = _classic_sections(details, whole, uneven_text(shard_counts(layout, base, markers)))
    keys = {name: _value(_paths(details, name)) for name in (TARS, MANIFESTS)}
    keys |= {name: value for name, value in bins.items() if name != "use_lhotse"}
    return write_train_ds(writer, command, keys, others=others)


def _classic_sections(
    details: Mapping[str, Any], whole: Sequence[AnyPath], uneven: str
) -> list[tuple[str, dict[str, Any]]]:
    """The sections for NeMo's classic loader, each with a line that says when it is needed.

    The classic loader reads only the whole manifest of a set, unless it runs in `torch.distributed`: then each process
    can read the manifests of its own shards. The keys for this would disturb the Lhotse loader: with `is_tarred`, some
    models ask it for a length, which it does not have.

    Args:
        details: the summary, with the paths of the tars and manifests.
        whole: for each set, the manifest over all its shards.
        uneven: why several GPUs cannot read equal shares (`uneven_text`); may be empty.
    """
    tars = _paths(details, TARS)
    section = {"use_lhotse": False, "is_tarred": True, "shuffle": True, TARS: _value(tars)}
    sections = [
        (
            "With NeMo's classic loader, paste this section instead, and add sample_rate and batch_size"
            f"{uneven and f'. On several GPUs, mind that {uneven}'}:",
            section | {MANIFESTS: _value([absolute(path) for path in whole])},
        )
    ]
    manifests = _paths(details, MANIFESTS)
    if manifests != [absolute(path) for path in whole]:
        distributed = {"shard_manifests": True, "defer_setup": True}
        sections.append(
            (
                "Or this one, if trainer.strategy is ddp: each GPU reads the manifests of its shards alone.",
                section | {MANIFESTS: _value(manifests)} | distributed,
            )
        )
    return sections


def shard_counts(
    layout: TarredLayout, base: ExistingSet | None, markers: Sequence[Marker] | None = None
) -> list[list[int]]:
    """For each set, the number of records in each shard: as planned, or without rejects if `markers` are given.

    Args:
        layout: the planned sets.
        base: the set to which records are added, if any. Each of its shards counts as `num_samples_per_shard` records
            (from its metadata) or, if this is not known, as many as the first new shard.
        markers: the markers of all units, in order.
    """
    planned = [count for bucket in layout.sets for count in np.diff(bucket.bounds).tolist()]
    counts = iter(planned if markers is None else [marker.records_out for marker in markers])
    before = [base.num_samples_per_shard or planned[0]] * base.num_shards if base and planned else []
    return [[*before, *islice(counts, bucket.num_shards)] for bucket in layout.sets]


def uneven_after_rejects(layout: TarredLayout, base: ExistingSet | None, markers: Sequence[Marker]) -> dict[str, str]:
    """The line `shards` for the summary, if the shards were planned even and rejects made them uneven; else empty."""
    done = uneven_shards(shard_counts(layout, base, markers))
    return {"shards": f"without the rejects, {done}"} if done and not uneven_shards(shard_counts(layout, base)) else {}


def uneven_text(counts: Sequence[Sequence[int]]) -> str:
    """A text if the shards have unequal numbers of records, or cannot be divided evenly among GPUs (`WORKERS`).

    NeMo's classic loader needs both. Empty if there is nothing to say.

    Args:
        counts: for each set, the numbers of records of its shards.
    """
    number = len(counts[0]) if counts else 0
    others = [str(workers) for workers in WORKERS if number % workers]
    notes = [uneven_shards(counts)]
    if others and number > 1:
        listed = " or ".join(filter(None, [", ".join(others[:-1]), others[-1]]))
        notes.append(f"{number:,} shards cannot be divided evenly among {listed} GPUs")
    return "; ".join(filter(None, notes))


def uneven_shards(counts: Sequence[Sequence[int]]) -> str:
    """A text with the smallest and the largest number of records per shard, if a set has unequal shards; else empty."""
    for of_set in counts:
        if min(of_set) < max(of_set):
            remedy = option("--remainder", "drop")
            return f"shards have {min(of_set):,} to {max(of_set):,} records ({remedy} makes them equal)"
    return ""


def _paths(details: Mapping[str, Any], name: str) -> list[str]:
    return [absolute(path) for key, path in details.items() if key.endswith(name)]


def _value(paths: Sequence[str]) -> Any:
    """The value of a key in a config: the path for one set, a list of lists for several sets."""
    return paths[0] if len(paths) == 1 else [[path] for path in paths]
