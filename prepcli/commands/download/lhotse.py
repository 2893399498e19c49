"""Runs a recipe of lhotse in a process of its own, then makes manifests of its output."""

import contextlib
import difflib
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import get_type_hints

import msgspec

from prepcli.commands.download.job import checked
from prepcli.commands.download.prepare import exclusive_lock, output_of
from prepcli.commands.download.recipes import OUTPUT, RECIPES, Recipe
from prepcli.commands.download.report import DownloadReport
from prepcli.commands.make_manifest.command import make_manifest
from prepcli.commands.make_manifest.lhotse import LhotseFiles, files_in
from prepcli.engine.run.options import JobArguments, run_options
from prepcli.engine.run.report import Report
from prepcli.engine.run.run import continuable
from prepcli.engine.run.status import SET_OUTPUTS_FILE
from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.errors import IncompleteError, PrepcliError, TooManyRejectsError, UsageError, option, same_command
from prepcli.interface.calls import current_call, tell
from prepcli.interface.command import call_within
from prepcli.interface.options import listed

LOG = "recipe.log"
_SECONDS_TO_END = 10.0
"""Maximum seconds to wait for a recipe to end after a stop signal."""
_RUN = """
import os, signal, sys, threading

def watch():
    os.read({watched}, 1)
    os.killpg(0, signal.SIGKILL)

threading.Thread(target=watch, daemon=True).start()
sys.argv[0], sys.path[:] = "lhotse", filter(None, sys.path)
from lhotse.bin.lhotse import cli
cli()
"""
"""The program that runs in a process of its own: lhotse's command line, which imports nothing from the current folder.
When prepcli's process ends, the pipe `watched` is closed, and the program ends itself and its workers."""


class Prepared(msgspec.Struct):
    """The content of `prepared.json`, a file that is written when a recipe has succeeded.

    Attributes:
        arguments: the arguments of `lhotse prepare`, without the output folder.
        folder: the name of the output folder, which is in the workspace.
        working_directory: the directory in which the recipe ran; relative paths of audio are relative to it.
        outputs: the names of the manifests (`prepcli.engine.run.status.SetOutputs`).
    """

    arguments: list[str]
    folder: str
    working_directory: str
    outputs: list[str] = []


def make_parts() -> DownloadReport:
    """Run the recipe of the current call, unless it has succeeded before, and make a manifest of each part.

    Raises:
        UsageError: the recipe is unknown, no manifest can be made of its output, the arguments do not fit the recipe,
            lhotse is not installed, or several ranks run before the recipe has run once.
        PrepcliError: the recipe has failed; the message has the command to run by hand.
    """
    asked = current_call().options
    engine, recipe, command = run_options(asked), asked.recipe, f"download lhotse {asked.recipe}"
    workspace = output_of(asked.data_root, f"lhotse-{recipe}").workspace
    arguments = _arguments(recipe, [str(word) for word in listed(asked.corpus)], asked.recipe_options)
    done = _prepared(workspace, arguments, starts_again=engine.overwrite and not engine.rank.restarts)
    if done is None and engine.dry_run:
        plan = {"command": command, "status": "dry_run", "runs": shlex.join(_words([*arguments, OUTPUT]))}
        return DownloadReport({recipe: Report(command, "dry_run", str(asked.data_root), details=plan)})
    if done is None and engine.rank.world_size > 1:
        raise UsageError(f"one process must run the recipe first: run {same_command()} once without ranks")
    with continuable(command, workspace):
        done = done or _run(workspace, command, arguments)
    report = DownloadReport()
    for part in _parts(workspace.root / done.folder, recipe):
        report.data_sets[part.name] = _make(part, done)
    return checked(report, engine)


def _arguments(name: str, corpus: Sequence[str], recipe_options: str) -> list[str]:
    """The arguments of `lhotse prepare` before the output folder; existing paths are made absolute.

    Raises:
        UsageError: the recipe is unknown, no manifest can be made of its output, the given arguments do not fit the
            recipe, or lhotse is not installed.
    """
    recipe = RECIPES.get(name)
    if recipe is None:
        close = difflib.get_close_matches(name.lower(), RECIPES, 1)
        hint = f": did you mean {close[0]}?" if close else ""
        raise UsageError(f"lhotse has no recipe {name}{hint} (prepcli download {option('--list')} has all)")
    if recipe.refused:
        raise UsageError(f"the recipe {recipe.name} is not for manifests: {recipe.refused}")
    _check(recipe, corpus)
    if importlib.util.find_spec("lhotse") is None:
        raise UsageError("recipes of lhotse need it: pip install 'prepcli[lhotse]'")
    try:
        words = shlex.split(recipe_options)
    except ValueError as error:
        raise UsageError(f"{option('--recipe-options', recipe_options)}: {error}") from None
    paths = [os.path.abspath(word) if os.path.exists(word) else word for word in corpus]
    if recipe.has_absolute_paths and "--absolute-paths" not in words:
        words += ["--absolute-paths", "true"]
    return [recipe.name, *words, *paths]


def _check(recipe: Recipe, corpus: Sequence[str]) -> None:
    wanted = recipe.arguments
    if len(corpus) != len(wanted):
        takes = " ".join(wanted) or f"no argument, but {option('--recipe-options')} with {recipe.needs}"
        raise UsageError(f"the recipe {recipe.name} takes {takes}; {len(corpus)} arguments were given")
    for name, path in zip(wanted, corpus, strict=True):
        if name.endswith("_DIR") and not os.path.isdir(path):
            raise UsageError(f"{name} of the recipe {recipe.name}: there is no folder {path}")


def _prepared(workspace: Workspace, arguments: list[str], starts_again: bool) -> Prepared | None:
    """Return the content of `prepared.json`; None if the recipe must be run.

    The recipe must be run if it has not succeeded, if its output folder is gone, or if `starts_again` is true.

    Raises:
        UsageError: the recipe has succeeded with other arguments.
    """
    done = read_document(workspace.root / SET_OUTPUTS_FILE, Prepared)
    if done is None or starts_again or not (workspace.root / done.folder).is_dir():
        return None
    if done.arguments != arguments:
        raise UsageError(
            f"{workspace.out} was prepared differently, by {shlex.join(_words(done.arguments))}, not "
            f"{shlex.join(_words(arguments))}; choose another {option('--data-root')}, or give {option('--overwrite')} "
            "to start again"
        )
    return done


def _words(arguments: list[str]) -> list[str]:
    return ["lhotse", "prepare", *arguments]


def _run(workspace: Workspace, name: str, arguments: list[str]) -> Prepared:
    """Run the recipe with a new output folder, and write `prepared.json`.

    Raises:
        PrepcliError: the recipe has failed.
        IncompleteError: the recipe was killed.
    """
    with exclusive_lock(workspace, name):
        marker = workspace.root / SET_OUTPUTS_FILE
        marker.unlink(missing_ok=True)
        for left in workspace.root.glob("run-*"):
            shutil.rmtree(left)
        folder = workspace.root / f"run-{uuid.uuid4().hex[:8]}"
        folder.mkdir()
        words = [*_words(arguments), str(folder.absolute())]
        log = workspace.root / LOG
        tell(f"running {shlex.join(words)}; its output is in {log}")
        code = _run_process(words[1:], log)
        if code:
            last_line = log.read_text(errors="replace").strip().splitlines()[-1:]
            ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
            kind = IncompleteError if code < 0 else PrepcliError
            raise kind(
                f"the recipe {ended}: {': '.join(last_line)}; all that it said is in {log}. By hand: "
                f"{shlex.join(words)}"
            )
        parts = _parts(folder, arguments[0])  # raises if the recipe has found nothing, so that it is run again
        os.sync()
        done = Prepared(arguments, folder.name, os.getcwd(), [_manifest(part) for part in parts])
        write_json(marker, done)
        return done


def _run_process(arguments: list[str], log: Path) -> int:
    """Run lhotse's command line, with its output in `log`, and return its exit code (negative: the signal).

    When this function ends, also by an exception, the process and its workers have ended.
    """
    watched, held = os.pipe()  # the child sees the end of the pipe when this process ends for any reason
    program = [sys.executable, "-c", _RUN.format(watched=watched), *arguments]
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                program,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[watched],
                start_new_session=True,
            )
        try:
            return process.wait()
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_SECONDS_TO_END)
    finally:
        os.close(watched)
        os.close(held)


def _parts(folder: Path, recipe: str) -> list[LhotseFiles]:
    """The parts of the corpus that the recipe has written to `folder` or to folders within it.

    Raises:
        PrepcliError: there is no part, or two parts have the same name.
    """
    found = [part for place, _, files in sorted(os.walk(folder)) for part in files_in(place, files)]
    if not found:
        raise PrepcliError(
            f"the recipe {recipe} has written no recordings to {folder}: is CORPUS_DIR the folder that it expects? "
            f"{folder.parent / LOG} has what it said"
        )
    names = [part.name for part in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise PrepcliError(f"the recipe {recipe} has written two parts with the name {twice} to {folder}")
    return found


def _manifest(part: LhotseFiles) -> str:
    return f"{part.name}.json"


def _make(part: LhotseFiles, done: Prepared) -> Report:
    """Make the manifest of a part of the corpus, and return its report.

    If there are too many rejects, the report says so; `TooManyRejectsError` is not raised.
    """
    asked = current_call().options
    root = os.path.realpath(asked.data_root)
    inside = any(os.path.realpath(word).startswith(f"{root}/") for word in done.arguments if os.path.isabs(word))
    try:
        report = call_within(
            make_manifest,
            **{name: getattr(asked, name) for name in get_type_hints(JobArguments)},
            source=part.main,
            out=asked.data_root / _manifest(part),
            format="lhotse",
            audio_base_dir=Path(done.working_directory),
            absolute_paths=not inside,
            run_commands=asked.run_commands,
        )
    except TooManyRejectsError as error:  # the other parts are made too
        report = error.report
    manifest = report.outputs.get("manifest")
    report.outputs = {part.name: manifest} if manifest else {}
    return report
