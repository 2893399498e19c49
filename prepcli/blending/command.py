"""`blend` from its options to its report."""

import importlib.util
from typing import Any

from prepcli.blending.nodes import Node, entries_of, set_weights
from prepcli.blending.options import Blend
from prepcli.blending.reading import find, read_sets
from prepcli.blending.report import BlendedSet, BlendReport
from prepcli.engine.workspace import atomic_file
from prepcli.errors import UsageError
from prepcli.processes.workers import available_processors
from prepcli.storage.input_files import refuse_input_as_output


def blend(options: Blend) -> BlendReport:
    """Mix finished data sets in one input_cfg.

    Returns:
        The table of the data sets: hours, shares, and how often their records are seen.

    Raises:
        UsageError: a data set is not there or not finished, or options do not go together.

    Example:
        >>> import prepcli
        >>> report = prepcli.blend(["a=manifest.json:0.7", "b=segments.json:0.3"], "mix.yaml", check=False)
        >>> [(one.name, one.records, one.share) for one in report.sets]
        [('a', 48, 0.7), ('b', 6, 0.3)]
    """
    if options.out.suffix not in (".yaml", ".yml"):
        raise UsageError(f"{options.out}: the config must be a file whose name ends in .yaml")
    if options.out.is_dir():
        raise UsageError(f"{options.out} is a folder; name the config to write")
    if any(not 0 <= one < float("inf") for one in options.temperature):
        raise UsageError("--temperature must be a number from 0 on")
    tags = options.tags()
    root = read_sets(options.sets, options.num_workers or available_processors())
    depth = root.depth()
    temperatures = options.temperature or (1.0,)
    if len(temperatures) not in (1, depth):
        raise UsageError(f"--temperature is given {len(temperatures)} times for {depth} levels; give one, or {depth}")
    set_weights(root, temperatures, options.by)
    for name, field, value in tags:
        node = find(root, name)
        for target in [node] if name else node.children:
            target.tags[field] = value
    report = _report(options, root)
    if options.dry_run:
        report.status = "dry_run"
    else:
        _write(options, _yaml(report, entries_of(root)), report)
    return report


def _report(options: Blend, root: Node) -> BlendReport:
    leaves = list(root.leaves())
    drawn = sum(share * leaf.seconds / leaf.records for _, leaf, share in leaves)
    sets = []
    for name, leaf, share in leaves:
        of_hours = share * leaf.seconds / leaf.records / drawn
        hours = leaf.seconds / 3600
        seen = 1000 * of_hours / hours
        shares = round(share, 6), round(of_hours, 6), seen
        sets.append(BlendedSet(name, leaf.entry["type"], round(hours, 4), leaf.records, *shares))
    notes = []
    if len({leaf.is_tarred for _, leaf, _ in leaves}) > 1:
        notes.append(
            "plain manifests are mixed with tarred or Shar sets: NeMo needs force_iterable_dataset: true in the "
            "config, or turn them into tarred sets with manifest-to-tarred"
        )
    return BlendReport("done", str(options.out), round(root.seconds / 3600, 4), root.records, sets, notes=notes)


def _yaml(report: BlendReport, entries: list[dict[str, Any]]) -> bytes:
    import yaml

    lines = [f"# {line.strip()}" for line in str(report).splitlines()[1:]]
    head = ["# Made by prepcli blend; use it as `input_cfg` of train_ds.", *lines]
    body = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=10**6)
    return ("\n".join(head) + "\n" + body).encode()


def _write(options: Blend, content: bytes, report: BlendReport) -> None:
    out = options.out
    if out.exists() and out.read_bytes() == content:
        report.status = "nothing_to_do"
        return
    inputs = [one.partition("=")[2] for one in options.sets]
    refuse_input_as_output("OUT", out, lambda: [*inputs, *(path.rpartition(":")[0] for path in inputs)])
    if out.exists() and not options.overwrite:
        raise UsageError(f"{out} exists with another content; give another name, or --overwrite to replace it")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(out) as file:
            file.write(content)
    except OSError as error:  # which names the draft
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from error
    if options.check and importlib.util.find_spec("nemo") and importlib.util.find_spec("lhotse"):
        from prepcli.models.nemo_input import open_input_cfg

        open_input_cfg(out)
        report.checked = True
