"""Shows the steps of a pipeline as a table, and which of their files and commands are not here.

    pipeline_steps.py CONFIG.yaml | pipeline_table.py CPU_TASKS GPU_TASKS

Reads only file names, the beginnings of manifests, and the list of commands. Needs Python alone, because it also runs
where jobs are submitted.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).absolute().parents[2]
SAMPLE_BYTES = 8 << 20
"""How much of each manifest is read: of a longer one the hours are estimated."""

_DURATION = re.compile(rb'"duration"\s*:\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)')
_BRACES = re.compile(r"\{([^{}]*)\}")
_ONE_TASK = ("estimate-", "blend", "download", "inspect", "verify")  # as in common.sh
_NO_INPUT = ("download", "status")
_FILE_OPTIONS = ("--audio-base-dir", "--codec-model", "--speaker-model")


@dataclass
class Step:
    """One line of `pipeline_steps.py`.

    `inputs` are the paths that the command reads, each with its name for messages; `output` is the one that it writes.
    """

    data_set: str
    name: str
    kind: str
    options: list[str]
    command: list[str]
    inputs: list[tuple[str, str]] = field(default_factory=list)
    output: str | None = None

    @classmethod
    def parse(cls, line: str) -> "Step":
        """The step of a line."""
        words = shlex.split(line)
        at = words.index("--")
        step = cls(words[0], words[1], words[2], words[3:at], words[at + 1 :])
        arguments = step.command[2:]
        positional = [word for number, word in enumerate(arguments) if _is_positional(arguments, number)]
        is_prepcli = step.command[0] == "prepcli"
        if (positional and is_prepcli and step.command[1] not in _NO_INPUT) or len(positional) > 1:
            step.inputs.append(("", positional[0]))
        if len(positional) > 1:
            step.output = positional[1]
        for name, value in _options(arguments):
            if name in _FILE_OPTIONS and ("/" in value or value.endswith(".nemo")):
                step.inputs.append((name, value))
            if name == "--output-dir":
                step.output = value
        return step

    def ranks(self, of_kind: dict[str, str]) -> str:
        """The number of tasks that the job asks for."""
        options = dict(_options(self.options))
        if "--array" in options:
            return f"array {options['--array']}"
        if "--ntasks" in options or "-n" in options:
            return options.get("--ntasks") or options["-n"]
        one = self.command[0] == "prepcli" and self.command[1:2] and self.command[1].startswith(_ONE_TASK)
        return "1" if one else of_kind[self.kind]


def _is_positional(words: list[str], number: int) -> bool:
    """Whether a word is an argument; the word after an option without a `=` is taken for its value."""
    before = words[number - 1] if number else ""
    return not words[number].startswith("-") and not (before.startswith("--") and "=" not in before)


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if name.startswith("-"):
            yield name, value if equals else following


def files_of(spec: str) -> list[str]:
    """The files that a MANIFEST names: several between commas, and braces such as `{0..7}` and `{_clean,_other}`."""
    spec = spec.replace("_OP_", "{").replace("_CL_", "}")
    several = re.split(r",(?![^{}]*\})", spec)
    if len(several) > 1:
        return [file for one in several for file in files_of(one)]
    found = _BRACES.search(spec)
    if found is None:
        return [spec]
    numbers = re.fullmatch(r"(\d+)\.\.(\d+)", found[1])
    width = len(numbers[1]) if numbers and numbers[1].startswith("0") else 0
    parts = (
        [str(n).zfill(width) for n in range(int(numbers[1]), int(numbers[2]) + 1)] if numbers else found[1].split(",")
    )
    return [file for part in parts for file in files_of(spec[: found.start()] + part + spec[found.end() :])]


def hours_of(spec: str) -> str | None:
    """Hours of audio in the manifests, `~` before an estimate; None where one is not here or has no durations."""
    hours, is_estimate = 0.0, False
    for file in files_of(spec):
        try:
            with Path(file).open("rb") as opened:
                data = opened.read(SAMPLE_BYTES)
            size = os.path.getsize(file)
        except OSError:
            return None
        seconds = sum(float(one) for one in _DURATION.findall(data))
        if not seconds:
            return None
        is_estimate |= size > len(data)
        hours += seconds / 3600 * size / len(data)
    return f"{'~' * is_estimate}{hours:,.1f}"


def missing_of(step: Step, made: list[str], commands: set[str]) -> Iterator[str]:
    """What is not here: the command, its script, its inputs, unless an earlier step makes them (`made`)."""
    program, word = step.command[0], (step.command[1:2] or [""])[0]
    if program == "python" and not os.path.isfile(word):
        yield f"there is no script {word}"
    if program == "prepcli" and commands and word not in commands:
        yield f"prepcli has no command {word!r}; it has {', '.join(sorted(commands))}"
    for name, value in step.inputs:
        if "=" in value or value.startswith("["):  # key=value, or several inputs with weights
            continue
        gone = [
            file
            for file in files_of(value)
            if not os.path.exists(file) and not any(_is_below(file, folder) for folder in made)
        ]
        if gone:
            more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            yield f"{name + ': ' if name else ''}there is no {gone[0]}{more}"


def clash_of(step: Step, writers: dict[str, str]) -> Iterator[str]:
    """Why a step cannot write its output: it is its input, or that of another step (`writers`, by path)."""
    if step.output is None or step.command[0] != "prepcli" or "=" in step.output:
        return
    place, name = os.path.abspath(step.output), f"{step.data_set}.{step.name}"
    if any(os.path.abspath(file) == place for _, value in step.inputs for file in files_of(value)):
        yield f"it would write over its input {step.output}"
    elif (other := writers.setdefault(place, name)) != name and not any(
        option == "--concat-to" for option, _ in _options(step.command[2:])
    ):
        yield f"{other} writes {step.output}, too: give each its own"


def _is_below(path: str, folder: str) -> bool:
    return os.path.abspath(path) == os.path.abspath(folder) or os.path.abspath(path).startswith(
        os.path.abspath(folder) + os.sep
    )


def known_commands() -> set[str]:
    """The first words of prepcli's commands; none where the repository has no such list."""
    try:
        text = (REPOSITORY / "prepcli/interface/commands.py").read_text(encoding="utf-8")
    except OSError:
        return set()
    return set(re.findall(r'\b_command\(\s*f?"([a-z0-9-]+)', text))


def table_of(steps: list[Step], of_kind: dict[str, str]) -> Iterator[str]:
    """The lines of the table, a word about its columns, and a line for each thing that is not here."""
    rows = [["data set", "step", "on", "ranks", "audio (h)", "after"]]
    problems: dict[tuple[str, str], str] = {}
    made: dict[str, list[str]] = {}
    hours: dict[str, str | None] = {}
    commands = known_commands()
    writers, clashes = dict[str, str](), list[str]()
    for number, step in enumerate(steps):
        earlier = made.setdefault(step.data_set, [])
        is_first = number == 0 or steps[number - 1].data_set != step.data_set
        if is_first:
            hours[step.data_set] = hours_of(step.inputs[0][1]) if step.inputs else None
        after = "-" if is_first else steps[number - 1].name
        rows.append(
            [step.data_set, step.name, step.kind, step.ranks(of_kind), hours[step.data_set] or "unknown", after]
        )
        clashes += [f"  {step.data_set}.{step.name}: {why}" for why in clash_of(step, writers)]
        for why in missing_of(step, earlier, commands):
            if (step.data_set, why) not in problems:
                problems[step.data_set, why] = f"  {step.data_set}.{step.name}: {why}"
        if step.output is not None:
            earlier.append(step.output)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield "audio (h): hours of audio in the manifest of the first step, not time of the job (~: estimated from a part)."
    if any(value is None for value in hours.values()):
        yield "unknown: the manifest is not here, or it has no durations."
    if problems:
        yield "Not found on this machine (the jobs need it on their nodes, or in the container):"
        yield from problems.values()
    if clashes:
        yield "These jobs would be refused when they run:"
        yield from clashes


def main() -> None:
    """Print the table of the steps on stdin."""
    steps = [Step.parse(line) for line in sys.stdin if line.strip()]
    for line in table_of(steps, {"cpu": sys.argv[1], "gpu": sys.argv[2]}):
        print(line)


if __name__ == "__main__":
    main()
