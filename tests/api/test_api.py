"""The Python API: a function per command, with the options, errors and reports of the command."""

import builtins
import inspect
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prepcli as library
from prepcli.errors import IncompleteError, PrepcliError, TooManyRejectsError, UsageError
from prepcli.interface.commands import COMMANDS, Command
from prepcli.interface.options import declared
from tests.conftest import MINI_CORPUS, read_lines, tree, write_lines
from tests.support.running import prepcli, run_process

MANIFEST = MINI_CORPUS / "manifest.json"
NAMES = [command.python_name for command in COMMANDS]
RENAMED = {
    "--buckets": "num_buckets",
    "--check": "check_by",
    "--in": "in_set",
    "--no-check": "check",
    "--no-index": "index",
    "--no-shard-manifests": "shard_manifests",
}
"""The options that have another name in Python, in some commands."""


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_every_command_is_a_function_with_the_options_of_the_command(command: Command) -> None:
    function = getattr(library, command.python_name)
    assert (function.__name__ in library.__all__) != hasattr(builtins, function.__name__)
    options = declared(command.load_options())
    expected = [one.name for one in options if one.option.only != "command line"]
    signature = inspect.signature(function)
    assert sorted(signature.parameters) == sorted(expected)
    assert "Option(" not in str(signature)  # `help` shows types and defaults
    assert "pathlib" not in str(signature)  # a path may be a text, too
    text = prepcli(*command.name.split(), "--help").out
    for one in options:
        flag = one.names[0].partition("/")[0]
        if one.option.only == "Python":
            assert f"{flag} " not in text
        elif one.option.is_argument:
            assert str(one.option.metavar).rstrip(".") in text
        else:
            assert flag in text
            if one.option.only is None:
                same = flag.lstrip("-").replace("-", "_")
                assert one.name in (same, RENAMED.get(flag))
    for name, parameter in signature.parameters.items():
        of_option = next(one for one in options if one.name == name)
        assert parameter.default is inspect.Parameter.empty or parameter.default == of_option.default


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_have_all_sections(name: str) -> None:
    text = inspect.getdoc(getattr(library, name)) or ""
    places = [text.index(f"\n{section}:\n") for section in ("Args", "Returns", "Raises", "Examples")]
    assert places == sorted(places)
    assert f"prepcli.{name}(" in text
    assert max(map(len, text.splitlines())) <= 120
    arguments = text[places[0] : places[1]]
    for argument in inspect.signature(getattr(library, name)).parameters:
        assert arguments.count(f"\n    {argument}: ") == 1
    assert "\n\n" not in arguments.strip()


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_the_list_of_commands_says_what_is_returned(command: Command) -> None:
    report = getattr(library, getattr(library, command.python_name).__wrapped__.__annotations__["return"])
    assert command.report == f"{report.__module__}.{report.__qualname__}".removeprefix("prepcli.")
    assert getattr(library, report.__name__) is report
    assert report.__str__ is not object.__str__


def test_the_module_is_light_and_says_what_it_has() -> None:
    heavy = ("numpy", "torch", "typer", "msgspec", "lhotse")
    code = f"import prepcli, sys; print([m for m in {heavy} if m in sys.modules], 'verify' in dir(prepcli))"
    assert run_process([sys.executable, "-c", code]).out == "[] True\n"
    for name in library.__all__:
        assert getattr(library, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(library, "no" + "thing")


def test_a_star_import_hides_no_built_in_function() -> None:
    """The function `filter` is an attribute, and no part of `__all__`."""
    assert "filter" in dir(library)
    assert "filter" not in library.__all__
    assert {"verify", "VerifyReport", "UsageError", "__version__"} <= set(library.__all__)


def test_the_same_bytes_and_plan_as_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed, and either continues what the other has begun."""
    report = library.manifest_to_tarred(MANIFEST, tmp_path / "a", shard_size=np.int64(16), shuffle=True)
    assert capfd.readouterr() == ("", "")
    done = prepcli("manifest-to-tarred", MANIFEST, tmp_path / "b", "--shard-size", 16, "--shuffle", "--json")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert (report.status, report.records_in, report.records_out, report.rejects_by_reason) == ("done", 48, 48, {})
    assert report.digest == done.json["digest"]
    assert report.outputs == {
        "tarred_audio_filepaths": f"{tmp_path}/a/audio__OP_0..2_CL_.tar",
        "manifest_filepath": f"{tmp_path}/a/sharded_manifests/manifest__OP_0..2_CL_.json",
    }
    assert done.json["outputs"].items() <= done.json["details"].items()
    assert "\n" not in repr(report)
    assert "records_out=48" in repr(report)
    assert str(report).startswith("manifest-to-tarred: done, ")
    again = library.manifest_to_tarred(MANIFEST, tmp_path / "b", shard_size=16, shuffle=True)
    assert (again.status, again.outputs.keys()) == ("nothing_to_do", report.outputs.keys())
    assert prepcli("manifest-to-tarred", MANIFEST, tmp_path / "a", "--shard-size", 16, "--shuffle").code == 0


def test_outputs_are_absolute_wherever_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the text prints them; a finished run has the same in another working directory."""
    (tmp_path / "a/b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a")
    report = library.manifest_to_shar(MANIFEST, "shar", shard_size=48)
    assert report.outputs["cuts"] == str(tmp_path / "a/shar/cuts/cuts.000000.jsonl.gz")
    assert all(Path(path).is_absolute() for path in (*report.outputs.values(), report.rejects_filepath))
    again = prepcli("manifest-to-shar", MANIFEST, "../shar", "--shard-size", 48, "--json", cwd=tmp_path / "a/b").json
    assert (again["status"], again["outputs"]) == ("nothing_to_do", report.outputs)
    assert again["outputs"].items() <= again["details"].items()


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    report = library.manifest_to_shar(MANIFEST, tmp_path / "shar", dry_run=True, rank=0, world_size=2)
    assert (report.status, report.records_in, report.records_out) == ("dry_run", 48, 0)
    assert len(report.details["seconds_per_rank"]) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give one of num_shards, shard_size and shard_hours"),
        ({"num_shards": "4"}, "num_shards must be of type int, not '4'"),
        ({"num_shards": True}, "num_shards must be of type int, not True"),
        ({"num_shards": 4, "remainder": "split"}, "remainder must be one of 'spread', 'drop', not 'split'"),
        ({"num_shards": 2, "min_duration": 3, "max_duration": 2}, "min_duration=3.0 leaves nothing below max_dur"),
        (
            {"shard_hours": 1, "remainder": "drop"},
            "remainder='drop' makes shards with equal numbers of records: use num_shards or",
        ),
        (
            {"num_shards": 2, "only_manifests": True, "target_sample_rate": 8000},
            "target_sample_rate has no effect with only_manifests=True",
        ),
        ({"num_shards": 2, "audio_base_dir": "/no/where"}, "audio_base_dir: there is no folder /no/where"),
        ({"num_shards": 2, "num_workers": 0}, "num_workers must be 1 or more, not 0"),
        ({"num_shards": 2, "rank": 1}, "rank needs world_size: how many ranks"),
        ({"num_shards": 2, "out": ""}, "out is empty"),
        ({"num_shards": 2, "max_rejects": -1}, "max_rejects takes a share below 1 or a count, not -1"),
    ],
)
def test_errors_name_the_arguments_of_python(options: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(library.UsageError) as raised:
        library.manifest_to_tarred(MANIFEST, **({"out": tmp_path / "out"} | options))  # type: ignore[arg-type]
    assert words in str(raised.value)
    assert "--" not in str(raised.value)


def test_a_list_of_manifests(tmp_path: Path) -> None:
    """As strings and as paths, for each command that takes several between commas."""
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    lines = read_lines(MANIFEST)
    write_lines(first, lines[:20]), write_lines(second, lines[20:])
    both: list[str | Path] = [first, str(second)]
    assert library.inspect(both).records == 48
    assert library.estimate_bins(tuple(both), num_buckets=4).num_examples == 48
    report = library.manifest_to_shar(both, tmp_path / "shar", audio_base_dir=MINI_CORPUS)
    assert (report.records_in, report.records_out) == (48, 48)
    done = prepcli("manifest-to-shar", f"{first},{second}", tmp_path / "shar", "--audio-base-dir", MINI_CORPUS)
    assert (done.code, "nothing to do" in done.out) == (0, True)
    with_comma = tmp_path / "a,b.json"
    first.rename(with_comma)
    assert library.inspect([with_comma]).records == 20
    with pytest.raises(library.UsageError, match=r"path: .*a,b\.json has a comma in its name"):
        library.inspect([with_comma, second])
    with pytest.raises(library.UsageError, match="path is an empty list"):
        library.inspect([])
    with pytest.raises(library.UsageError, match="source must be of type str, not "):
        library.make_manifest(both, tmp_path / "m.json")  # type: ignore[arg-type]


def test_a_path_may_be_a_path_everywhere() -> None:
    """In the signature, and an address in a store that `pathlib` has shortened."""
    for name, argument in (("estimate_batch_sizes", "model"), ("extend_codec_codes", "codec_model")):
        assert "PathLike" in str(inspect.signature(getattr(library, name)).parameters[argument])
    with pytest.raises(library.UsageError, match=r"input does not take an address in an object store \(s3://b/m.json"):
        library.prepare_texts(Path("s3://b/m.json"), "out.json")


def test_wrong_arguments_are_type_errors() -> None:
    with pytest.raises(TypeError, match=r"verify\(\) got an unexpected keyword argument 'shards'"):
        library.verify("tarred", shards=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"manifest_to_shar\(\) missing a required argument: 'out'"):
        library.manifest_to_shar("m.json")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"argument 'num_shard': did you mean num_shards\?$"):
        library.manifest_to_tarred("m.json", "out", num_shard=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"argument 'buckets': did you mean num_buckets\?$"):
        library.estimate_bins("m.json", buckets=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"; arguments but record have their names, as in in_set=\.\.\.$"):
        library.explain("a.wav", "tarred")  # type: ignore[call-arg]


def test_other_settings_are_refused_in_the_words_of_the_caller(tmp_path: Path) -> None:
    library.manifest_to_tarred(MANIFEST, tmp_path / "t", num_shards=2)
    with pytest.raises(library.UsageError, match=r"num_shards was 2, now 3.* give overwrite=True to start again"):
        library.manifest_to_tarred(MANIFEST, tmp_path / "t", num_shards=3)
    with pytest.raises(library.UsageError, match=r"differently: shuffle was False, now True\."):
        library.manifest_to_tarred(MANIFEST, tmp_path / "t", num_shards=2, shuffle=True)
    done = prepcli("manifest-to-tarred", MANIFEST, tmp_path / "t", "--num-shards", 3)
    assert "--num-shards was 2, now 3" in done.error_line
    assert "give --overwrite" in done.error_line


def test_too_many_rejects_have_the_report(tmp_path: Path) -> None:
    records = read_lines(MANIFEST)
    records[0]["audio_filepath"] = records[1]["audio_filepath"] = "gone.wav"
    manifest = write_lines(tmp_path / "m.json", records[:10])
    options: dict[str, Any] = {"num_shards": 2, "audio_base_dir": MINI_CORPUS}
    with pytest.raises(library.TooManyRejectsError, match=r"2 of 10 .* more than max_rejects allows \(5.0%") as raised:
        library.manifest_to_tarred(manifest, tmp_path / "t", **options)
    report = raised.value.report
    assert (report.status, report.records_out) == ("too_many_rejects", 8)
    assert report.rejects_by_reason == {"missing_audio": 2}
    assert len(read_lines(Path(report.rejects_filepath))) == 2
    kept = library.manifest_to_tarred(manifest, tmp_path / "t", max_rejects=2, **options)
    assert kept.rejects_by_reason == {"missing_audio": 2}


def test_errors_are_of_one_family() -> None:
    for error in (UsageError, IncompleteError, TooManyRejectsError):
        assert issubclass(error, library.PrepcliError)
        assert getattr(library, error.__name__) is error
    assert library.PrepcliError is PrepcliError


def test_status_of_several_outputs(tmp_path: Path) -> None:
    library.manifest_to_tarred(MANIFEST, tmp_path / "t", num_shards=2)
    states = [(run.command, run.state) for run in library.status([tmp_path / "t", tmp_path / "none"])]
    assert states == [("manifest-to-tarred", "finished"), ("-", "not_started")]
    with pytest.raises(library.UsageError, match="no run of prepcli is known"):
        library.status(tmp_path / "none")


def test_reports_are_shown_in_a_line() -> None:
    bins = library.estimate_bins(MANIFEST, num_buckets=4)
    assert repr(bins).startswith("BinsReport(num_buckets=4, bucket_duration_bins=[")
    assert repr(library.inspect(MANIFEST)).startswith(f"Inspection(path='{MANIFEST}', kind='manifest', ")
    assert max(len(repr(report)) for report in (bins, library.inspect(MANIFEST))) < 400


def test_the_environment_stays_as_it_was(tmp_path: Path) -> None:
    before = dict(os.environ)
    library.estimate_bins(MANIFEST, num_buckets=4)
    library.inspect(MANIFEST)
    assert dict(os.environ) == before
