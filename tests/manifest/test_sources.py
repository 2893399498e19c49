import os
from pathlib import Path

import pytest

from prepcli.errors import UsageError
from prepcli.manifest.braces import expand_braces, nemo_to_braces
from prepcli.manifest.sources import expand_paths

PATTERNS = [
    "a.json",
    "m_{0..3}.json",
    "m__OP_0..3_CL_.json",
    "m_(0..3).json",
    "m_[0..3].json",
    "m_<0..3>.json",
    "m_{08..11}.json",
    "m_{1..010}.json",
    "m_{0..8..3}.json",
    "m_{8..0..3}.json",
    "m_{3..3}.json",
    "m_{0..4..0}.json",
    "m_{2..-2}.json",
    "m_{-02..2}.json",
    "m_{a..e..2}.json",
    "m_{e..a}.json",
    "m_{Y..b}.json",
    "{a,b}/{0..1}.json",
    "{a,b{1,2},}.json",
    "x{,y}",
    "{x}",
    "{}",
    "{a{0..1}b}",
    "{{a,b},c}{1,2}",
    "b[1,2]/(x,y).json",
    "{1.5..2}",
    "back\\slash{0..1}",
    "{0..1}{0..1}{0..1}",
    "{0..2}a{x}",
    "}{",
]


@pytest.mark.nemo
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_same_strings_as_nemo(pattern: str) -> None:
    nemo = pytest.importorskip("nemo.collections.asr.data.audio_to_text")
    expected = nemo.expand_sharded_filepaths(pattern, shard_strategy="replicate", world_size=1, global_rank=0)
    assert list(expand_braces(nemo_to_braces(pattern))) == expected


def test_expansion_by_hand() -> None:
    assert list(expand_braces("{08..10}{a,}")) == ["08a", "08", "09a", "09", "10a", "10"]
    assert list(expand_braces("{2..-2..2}|{e..a..2}|{x}|back\\slash")) == [
        f"{number}|{letter}|{{x}}|back\\slash" for number in (2, 0, -2) for letter in "eca"
    ]
    assert nemo_to_braces("_OP_0..1_CL_(2)[3]<4>") == "{0..1}{2}{3}{4}"


@pytest.mark.parametrize("pattern", ["{a", "a}", "{{a}"])
def test_unbalanced_braces(pattern: str) -> None:
    with pytest.raises(ValueError, match="balanced"):
        list(expand_braces(pattern))


@pytest.mark.parametrize("pattern", [f"{{0..{'9' * 5000}}}", "{" * 3000 + "}" * 3000])
def test_braces_that_python_cannot_count(pattern: str) -> None:
    with pytest.raises(ValueError):
        expand_braces(pattern)


def test_a_range_with_a_step_counts_what_it_makes() -> None:
    assert list(expand_braces("{0..100000000..50000000}")) == ["0", "50000000", "100000000"]


def files(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return [str(folder / name) for name in names]


@pytest.mark.parametrize(
    "spec",
    ["m_{0..2}.json", "m__OP_0..2_CL_.json", "m_(0..2).json", "m_[0..2].json", "m_<0..2>.json", "m_{0,1,2}.json"],
)
def test_brace_forms(tmp_path: Path, spec: str) -> None:
    paths = files(tmp_path, "m_0.json", "m_1.json", "m_2.json")
    assert expand_paths(f"{tmp_path}/{spec}") == paths


def test_several_paths_and_commas_inside_braces(tmp_path: Path) -> None:
    paths = files(tmp_path, "x/a.json", "y/a.json", "b.json")
    assert expand_paths(f"{tmp_path}/{{x,y}}/a.json, {tmp_path}/b.json,") == paths
    assert expand_paths(f"{tmp_path}/(x,y)/a.json,{tmp_path}/b.json") == paths


def test_names_that_exist_as_written_are_taken_as_written(tmp_path: Path) -> None:
    names = ["set (1)/a,b [x].json", "set(0..1)/m.json", "b{0..1}.json", "<c>.json"]
    for path in files(tmp_path, *names):
        assert expand_paths(path) == [path]
    two = files(tmp_path, "set (1)/c.json", "[x]/c.json")
    assert expand_paths(",".join(two)) == two


def test_a_range_in_a_folder_with_brackets(tmp_path: Path) -> None:
    paths = files(tmp_path, "set(1)/m_0.json", "set(1)/m_1.json")
    assert expand_paths(f"{tmp_path}/set(1)/m_{{0..1}}.json") == paths
    assert expand_paths(f"{tmp_path}/set(1)/m__OP_0..1_CL_.json") == paths


def test_an_unbalanced_bracket_in_a_folder(tmp_path: Path) -> None:
    paths = files(tmp_path, "set(1/a.json", "b.json")
    assert expand_paths(",".join(paths)) == paths


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    files(tmp_path, "m_0.json", "m_2.json")
    with pytest.raises(UsageError, match=r"^manifest not found: .*m_1\.json$"):
        expand_paths(f"{tmp_path}/m_{{0..2}}.json")
    with pytest.raises(UsageError, match=r"^manifest not found: .*set\(1\)\.json$"):
        expand_paths(f"{tmp_path}/set(1).json")


def test_a_huge_range_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="stands for more than 10,000,000 names"):
        expand_paths(f"{tmp_path}/m_{{0..999999999999}}.json")


def test_a_relative_path_says_where_it_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        expand_paths("no.json")
    assert str(caught.value) == f"manifest not found: no.json (looked in {tmp_path})"


@pytest.mark.parametrize("spec", ["", " ", ",", " , "])
def test_nothing_named(spec: str) -> None:
    with pytest.raises(UsageError, match="no manifest"):
        expand_paths(spec)


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        expand_paths(str(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file(tmp_path: Path) -> None:
    (path,) = files(tmp_path, "a.json")
    Path(path).chmod(0)
    with pytest.raises(UsageError, match="permission"):
        expand_paths(path)
