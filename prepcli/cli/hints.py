"""Advice for options that a command does not have: NeMo, WeNet and lhotse name many of them differently."""

from collections.abc import Collection, Sequence
from typing import Any

from typer.core import TyperCommand

from prepcli.errors import UsageError

_INPUTS = (
    *("manifest", "manifest-path", "manifest-filepath", "manifest-paths", "input-manifest", "input", "input-path"),
    *("shar-dir", "cuts-dir", "target-audio-dir", "context-audio-dir"),
)
_OUTPUTS = ("target-dir", "output-dir", "output", "out", "out-dir", "output-path", "dest-dir")
_RENAMED = {
    "workers": "--num-workers",
    "num-jobs": "--num-workers",
    "jobs": "--num-workers",
    "num-threads": "--num-workers",
    "seed": "--shuffle-seed",
    "shards": "--num-shards",
    "num-utts-per-shard": "--shard-size",
    "resample": "--target-sample-rate",
    "num-buckets": "--buckets",
    "tokenizers": "--tokenizer",
    "cuts-per-shard": "--shard-size",
    "gpus": "--devices",
    "num-gpus": "--devices",
    "pretrained-name": "--model",
    "module-name": "--model-class",
    "config-path": "--config",
    "optimizer-name": "--optimizer",
    "processing-chunk-size": "--shard-size",
    "codec-model-name": "--codec-name",
    "codec-model-path": "--codec-model",
    "dataset-name": "--group-by",
    "dataset-path": "--audio-base-dir",
    "audio-root": "--ldc-root",
    "transcript-root": "--ldc-root",
    "dest-folder": "--data-root",
}
"""Options of NeMo's and WeNet's scripts and of lhotse, and ours that do the same."""
_NOT_NEEDED = {
    "num-nodes": "it starts no other nodes",
    "flush-threshold-items": "memory does not grow with the size of the input",
    "buffer-size": "memory does not grow with the size of the input",
    "mel-files": "the lists of mels are written to OUT/filelists",
    "codec-frame-rate": "the model has its frame rate",
    "write-metadata": "metadata.yaml is always written",
    **dict.fromkeys(("wandb-entity", "wandb-project", "wandb-name"), "prepcli status shows how far a run is"),
    "log-level": "notes and progress go to stderr",
    "use-lhotse": "it is an option of the training config",
}
"""Options of NeMo's scripts that have no counterpart, and why."""
_OTHERWISE = {
    "num-nodes": (
        "--world-size",
        "run it on every node with srun or torchrun, which set the ranks, or give --rank and --world-size",
    ),
    "batch-size": ("--batch-duration", "did you mean --batch-duration? It is in seconds of audio"),
    "concat-manifest-paths": (
        "--concat-to",
        "give the manifests to add as MANIFEST, and the set that they are added to with --concat-to",
    ),
    "metadata": ("--concat-to", "leave it out: metadata.yaml is always written, and read from the set of --concat-to"),
    "wav-files": (
        "--n-mel-channels",
        "MANIFEST is the first argument; prepcli make-manifest LIST.txt MANIFEST --format filelist makes it",
    ),
    "metadata-path": ("--concat-to", "name the folder of the set that is added to with --concat-to"),
}
"""Options of NeMo's scripts, the one of ours that the advice is about, and the advice."""


class ExplainingCommand(TyperCommand):
    """A command that says of an unknown option what to write instead."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `click.Command.parse_args`.

        Raises:
            UsageError: an option is unknown, and something like it is known.
        """
        self._explain_unknown(args)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """See `click.Command.collect_usage_pieces`; arguments are named without the braces that typer adds."""
        return [piece[1:-1] if piece[:1] == "{" else piece for piece in super().collect_usage_pieces(ctx)]

    def _explain_unknown(self, args: Sequence[str]) -> None:
        options = [one for one in self.params if one.param_type_name == "option"]
        by_name = {name: one for one in options for name in (*one.opts, *one.secondary_opts)}
        is_value = False
        for arg in args:
            name, equals, _ = arg.partition("=")
            if is_value:
                is_value = False
            elif arg == "--":
                return
            elif name in by_name:
                is_value = not equals and not getattr(by_name[name], "is_flag", False)
            elif name.startswith("--") and (hint := self._hint(name, by_name)) is not None:
                raise UsageError(f"there is no option {name}: {hint}")

    def _hint(self, name: str, known: Collection[str]) -> str | None:
        """What to write instead of an option; None if there is nothing like it."""
        plain = name.removeprefix("--").replace("_", "-").lower()
        if f"--{plain}" in known:
            return f"did you mean --{plain}?"
        arguments = [one.metavar or str(one.name).upper() for one in self.params if one.param_type_name == "argument"]
        for names, number, ordinal in ((_INPUTS, 0, "first"), (_OUTPUTS, 1, "second")):
            if plain in names and len(arguments) > number:
                return f"{arguments[number].replace('|', ' or ')} is the {ordinal} argument, without an option"
        about, advice = _OTHERWISE.get(plain, ("", ""))
        if about in known:
            return advice
        if plain in _NOT_NEEDED:
            return f"leave it out: {_NOT_NEEDED[plain]}"
        renamed = _RENAMED.get(plain)
        if renamed in known:
            return f"did you mean {renamed}?"
        import difflib  # only for a mistake: it takes milliseconds of every start

        close = difflib.get_close_matches(f"--{plain}", [one for one in known if one.startswith("--")], 1, 0.75)
        return f"did you mean {close[0]}?" if close else None
