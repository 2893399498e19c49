"""The program as a whole: help that is instant and complete, words for errors, manners when piped."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prepcli import __version__
from prepcli.cli.app import DOWNLOAD
from prepcli.interface.commands import COMMANDS as ALL_COMMANDS
from prepcli.interface.commands import TASKS, Command
from prepcli.interface.options import SYNONYMS, declared
from tests.conftest import MINI_CORPUS
from tests.slurm.slow_disk import published
from tests.support.commands import COMMANDS
from tests.support.running import HANG_SECONDS, clean_environment, prepcli, run_process

# What costs time to import and has no effect on a help text.
HEAVY = [
    "hashlib",
    "logging",
    "torch",
    "torchaudio",
    "lhotse",
    "nemo",
    "numpy",
    "soundfile",
    "soxr",
    "yaml",
    "msgspec",
    "xxhash",
    "fastcrc",
    "matplotlib",
    "rich",
]
WITHOUT_HEAVY = f"""
import sys
sys.modules.update(dict.fromkeys({HEAVY!r}))  # None: importing it raises
from prepcli.cli.app import main
for command in sys.argv[1:]:
    sys.argv = ["prepcli", *command.split(), "--help"]
    try:
        main()
    except SystemExit as done:
        if done.code:
            sys.exit(f"{{command}}: {{done.code}}")
"""


def names_of(command: Command) -> set[str]:
    """The names of its options."""
    return {name for one in declared(command.load_options()) for name in one.names}


def test_help_imports_nothing_heavy() -> None:
    commands = ["", "download", *COMMANDS]
    done = run_process([sys.executable, "-c", WITHOUT_HEAVY, *commands])
    assert done.code == 0, done.err
    assert done.out.count("Usage: ") == len(commands)


@pytest.mark.parametrize(
    ("command", "unneeded"),
    [
        (f"manifest-to-tarred {MINI_CORPUS}/manifest.json OUT --num-shards 1", ["numpy.random"]),
        (f"make-manifest {MINI_CORPUS}/s01 OUT.json", ["numpy", "yaml"]),
    ],
)
def test_a_local_run_starts_without_what_others_need(command: str, unneeded: list[str], tmp_path: Path) -> None:
    """Each of these takes 5 % of the time of a small run or more. Garbage is collected once the command has begun."""
    unneeded = [*unneeded, "urllib.request", "ssl", "xml.etree.ElementTree", "tqdm", "soundfile", "obstore"]
    program = (
        "import gc, sys\n"
        f"sys.modules.update(dict.fromkeys({unneeded!r}))\n"
        "from prepcli.__main__ import main\n"
        "main()\n"
        "print(gc.isenabled(), gc.get_freeze_count() > 10_000)\n"
    )
    words = command.replace("OUT", str(tmp_path / "out")).split()
    done = subprocess.run(
        [sys.executable, "-c", program, *words, "--num-workers", "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("True True\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(command: str) -> None:
    text = prepcli(*command.split(), "--help").out
    assert re.search(rf"Example: prepcli {command} \S", text), text


@pytest.mark.parametrize("command", COMMANDS)
def test_defaults_are_shown(command: str) -> None:
    text = prepcli(*command.split(), "--help").out
    options = re.findall(r"^  (?:-\w, )?--[a-z-]+ (?:INTEGER|FLOAT)", text, flags=re.MULTILINE)
    assert len(re.findall(r"\[default:", text)) >= len(options) / 3, text


def test_version() -> None:
    assert prepcli("--version").out == f"prepcli {__version__}\n"


def test_no_arguments_shows_help() -> None:
    done = prepcli()
    assert "manifest-to-tarred" in done.out + done.err


def test_help_lists_every_command_in_a_group_with_a_whole_line() -> None:
    text = prepcli("--help").out
    assert "..." not in text.split("Options:")[1]
    listed = set()
    for title, commands in TASKS.items():
        section = text.split(f"\n{title}:\n")[1].split("\n\n")[0].splitlines()
        summaries = {one.name: one.summary for one in commands if " " not in one.name}
        if any(one.name.startswith("download ") for one in commands):
            summaries = {"download": DOWNLOAD} | summaries
        assert [line.split(maxsplit=1) for line in section] == [[name, what] for name, what in summaries.items()]
        listed |= set(summaries)
    assert listed == {name.split()[0] for name in COMMANDS}
    assert max(map(len, text.splitlines())) <= 80


def test_what_reads_manifests_stands_under_that_heading() -> None:
    headed = TASKS["Prepare training data from manifests"]
    assert {declared(one.load_options())[0].option.metavar for one in headed} == {"MANIFEST"}


def order_of_help(command: str) -> list[str]:
    """The long names of the options in the order of `--help`, each option by its first; without --help itself."""
    options = prepcli(*command.split(), "--help").out.partition("\nOptions:\n")[2]
    return re.findall(r"^  (?:-\w, )?(--[\w-]+)", options, re.MULTILINE)[:-1]


@pytest.mark.parametrize(
    ("command", "first"),
    [
        ("manifest-to-tarred", ["--num-shards", "--shard-size", "--shard-hours", "--audio-base-dir"]),
        ("manifest-to-wenet", ["--shard-size", "--audio-base-dir"]),
        ("extend-context-audio", ["--audio-base-dir", "--speaker-model", "--group-by"]),
        ("extend-codec-codes", ["--codec-model", "--codec-name"]),
        ("estimate-bins-2d", ["--tokenizer", "--langs", "--buckets", "--sub-buckets"]),
        ("estimate-bins", ["--buckets", "--num-examples"]),
    ],
)
def test_help_begins_with_what_most_calls_need(command: str, first: list[str]) -> None:
    assert order_of_help(command)[: len(first)] == first


WITH_WORK_DIR = [one for one in ALL_COMMANDS if "--work-dir" in names_of(one)]


@pytest.mark.parametrize("command", WITH_WORK_DIR, ids=lambda one: one.name)
def test_help_ends_with_what_few_calls_need(command: Command) -> None:
    names = order_of_help(command.name)
    assert names[-1] == "--work-dir"
    if "--no-steal" in names:
        assert names.index("--no-steal") > names.index("--num-workers")


def test_the_three_ways_to_choose_shards_are_marked() -> None:
    text = " ".join(prepcli("manifest-to-tarred", "--help").out.split())
    assert text.count("One of three: ") == 3


WITH_CODEC = [one for one in ALL_COMMANDS if SYNONYMS.keys() & names_of(one)]


@pytest.mark.parametrize("command", WITH_CODEC, ids=lambda one: one.name)
def test_both_names_of_the_codec_are_accepted(command: Command) -> None:
    """NeMo's scripts call it --force-codec for tar shards and --audio-format for Shar."""
    assert SYNONYMS.keys() <= names_of(command)
    for name in SYNONYMS:
        done = prepcli(*command.name.split(), name, "mpeg7")
        assert done.code == 2
        assert "'mpeg7' is not one of 'wav'" in done.error_line or "'mpeg7' is not one of 'flac'" in done.error_line


def test_either_name_of_the_codec_is_the_same_setting(tmp_path: Path) -> None:
    words = ("manifest-to-shar", MINI_CORPUS / "manifest.json", tmp_path / "shar", "--json")
    assert prepcli(*words, "--force-codec", "wav").json["status"] == "done"
    assert prepcli(*words, "--audio-format", "wav").json["status"] == "nothing_to_do"
    (plan,) = (tmp_path / "shar.prepcli").glob("*/plan.json")
    assert "--audio-format wav" in plan.read_text()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("manifest-to-tarred --help", 141),
        ("manifest-to-tarred MINI out --num-shards 2", 0),
        ("inspect MINI --json", 0),
        ("verify MINI --audio-base-dir /", 1),  # the faults are not lost with the words
    ],
)
def test_nobody_reads_the_output(tmp_path: Path, words: str, code: int) -> None:
    command = [sys.executable, "-m", "prepcli", *words.replace("MINI", str(MINI_CORPUS / "manifest.json")).split()]
    done = run_unread(command, tmp_path, stderr=subprocess.PIPE)
    assert (done.returncode, "prepcli: " in done.stderr) == (code, False), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_nobody_reads_notes_during_the_work(unbuffered: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is not done, and the exit code says so; the same command continues it."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/other.txt").touch()  # makes a note before the first file is written
    command = [sys.executable, "-m", "prepcli", "manifest-to-tarred", MINI_CORPUS / "manifest.json", "out"]
    command += ["--num-shards", 2]
    assert run_unread(command, tmp_path).returncode == 1
    assert run_unread(command, tmp_path, stderr=subprocess.DEVNULL).returncode == 0


def run_unread(command: Sequence[object], cwd: Path, stderr: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program whose stdout, and stderr unless it is given, are a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    environ = clean_environment(PYTHONPATH=str(Path(__file__).parents[2]))
    try:
        return subprocess.run(
            list(map(str, command)),
            stdout=writer,
            stderr=writer if stderr is None else stderr,
            cwd=cwd,
            env=environ,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
    finally:
        os.close(writer)


def test_a_terminal_gets_a_bar_and_a_pipe_does_not(tmp_path: Path) -> None:
    """Both runs take longer than the bar's delay, on a disk that stands still after the first shard."""
    hold = tmp_path / "hold"
    hold.touch()
    common = ["manifest-to-tarred", MINI_CORPUS / "manifest.json", "--num-workers", 1, "--num-shards", 6]
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 132, 0, 0))
    processes = {}
    for name, stderr in (("piped", subprocess.PIPE), ("shown", terminal)):
        processes[name] = subprocess.Popen(
            [sys.executable, "-m", "tests.slurm.slow_disk", *map(str, common), tmp_path / name],
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=clean_environment(SLOW_DISK=f"{hold}:{tmp_path / name}:1"),
        )
    os.close(terminal)
    with ThreadPoolExecutor(1) as reader:
        shown = bytearray()
        reading = reader.submit(read_terminal, controller, shown)
        deadline = time.monotonic() + HANG_SECONDS
        while not (all(published(tmp_path / name) for name in processes) and b"manifest-to-tarred:" in shown):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.6)
        hold.unlink()
        outcomes = [process.communicate(timeout=HANG_SECONDS)[1] for process in processes.values()]
        reading.result()
    os.close(controller)
    assert [process.returncode for process in processes.values()] == [0, 0]
    assert outcomes[0] == b""
    assert b"x real time" in shown


def read_terminal(controller: int, shown: bytearray) -> None:
    """Add to `shown` what is written to a terminal, until nobody has it open."""
    with contextlib.suppress(OSError):
        while data := os.read(controller, 65536):
            shown += data


def test_python_m_prepcli_and_the_entry_point_are_the_same() -> None:
    script = Path(sys.executable).with_name("prepcli")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == prepcli("--version").out
    wrong = [run_process([*program, "verify"]) for program in ([script], [sys.executable, "-m", "prepcli"])]
    assert wrong[0] == wrong[1]
    assert wrong[0].error_line == "prepcli: missing argument 'OUT' (see prepcli verify --help)"


@pytest.mark.parametrize("traceback", [False, True])
def test_a_bug_is_one_line_unless_asked_for(traceback: bool, tmp_path: Path) -> None:
    code = (
        "import prepcli.manifest.sources as sources\n"
        "def fail(*_, **__): raise ZeroDivisionError('a slip')\n"
        "sources.expand_paths = fail\n"
        "from prepcli.cli.app import main\n"
        "main()\n"
    )
    environ = clean_environment(**({"PREPCLI_TRACEBACK": "1"} if traceback else {}))
    command = [sys.executable, "-c", code, "manifest-to-tarred", "m.json", str(tmp_path / "out"), "--num-shards", "1"]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    assert done.returncode == 1
    assert ("Traceback" in done.stderr) == traceback
    assert "ZeroDivisionError: a slip" in done.stderr
    assert traceback or done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((b"verify", b""), "an argument is empty"),
        ((b"verify", b"na\xefve"), r"na\udcefve is not a UTF-8 name"),
        ((b"verify", b"no\nwhere\x1b[2J"), r"there is no directory no\nwhere\x1b[2J"),
    ],
)
def test_names_that_cannot_be_or_be_shown(arguments: tuple[bytes, ...], words: str) -> None:
    """Whatever a name holds, the error is one printable line."""
    command = [os.fsencode(sys.executable), b"-m", b"prepcli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert words in done.stderr


def test_a_folder_that_is_not_utf8(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/na\xefve"
    os.mkdir(folder)
    command = [sys.executable, "-m", "prepcli", "verify", "."]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=clean_environment(), check=False)
    assert done.returncode == 2
    assert "not a UTF-8 name" in done.stderr


@pytest.mark.parametrize("command", ["manifest-to-tarred", "manifest-to-shar", "fix-durations", "manifest-to-wenet"])
def test_a_folder_that_is_not_there_is_wrong_use(command: str, tmp_path: Path) -> None:
    manifest = MINI_CORPUS / "manifest.json"
    shards = ["--num-shards", 2] if command == "manifest-to-tarred" else []
    for folder, words in ((tmp_path / "none", "does not exist"), (manifest, "is a file")):
        done = prepcli(command, manifest, tmp_path / "out", *shards, "--audio-base-dir", folder)
        assert (done.code, done.out) == (2, "")
        assert words in done.error_line


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=lambda command: command.name)
def test_help_names_no_part_of_the_program(command: Command) -> None:
    assert "<function" not in prepcli(*command.name.split(), "--help").out
