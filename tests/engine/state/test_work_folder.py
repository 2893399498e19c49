"""The names of OUT.prepcli: one for each output, under all of its names."""

from pathlib import Path

import pytest

from prepcli.engine.state.work_folder import refuse_state
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError
from prepcli.storage.paths import StorePath


def test_a_directory_has_one_workspace_under_all_its_names(tmp_path: Path) -> None:
    """Two plans for one directory would each replace what the other has published."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "link to link").symlink_to("link")
    roots = {Workspace(tmp_path / name).root.resolve() for name in ("real", "link", "link to link")}
    assert roots == {tmp_path.resolve() / "real.prepcli"}


def test_addresses_have_a_work_folder_each(tmp_path: Path) -> None:
    addresses = ["s3://bu/y/a_b", "s3://bu/y/a/b", "s3://bu/y_a/b", "s3://bu_y/a/b", "ais://bu/y/a/b"]
    folders = {one: Workspace(StorePath(one), work_dir=tmp_path).root for one in addresses}
    assert len(set(folders.values())) == len(addresses)
    assert folders["s3://bu/y/a/b"] == tmp_path / "bu_y_a_b.prepcli"


def test_an_address_that_is_too_long_for_a_work_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="too long for the name of its work folder: bu_aaa"):
        Workspace(StorePath(f"s3://bu/{'a' * 250}"), work_dir=tmp_path)


def test_a_path_through_a_folder_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run would make the folder, and then write over the files that it could not see before."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"through new, which does not exist; write the path without it, as out$"):
        Workspace(Path("new/../out"))
    Path("new").mkdir()
    assert Workspace(Path("new/../out")).root == Path("new/../out.prepcli")
    Workspace(Path("../missing/out"))


@pytest.mark.parametrize(
    "name", ["plan.json", "claims/rank", "owned/note.json", "version_1/plan.json", "codes_x/plan.json", "sets/a/x.json"]
)
def test_no_output_is_in_the_state_of_another(name: str, tmp_path: Path) -> None:
    """A folder that only has such a name is a folder like others."""
    state = tmp_path / "out.prepcli"
    (state / "mine").mkdir(parents=True)
    outputs = [state, state / "claims/u.json", state / "new/deep/out", tmp_path / "link/out"]
    (tmp_path / "link").symlink_to("out.prepcli")
    for out in outputs:
        refuse_state(out)
    (state / name).parent.mkdir(parents=True, exist_ok=True)
    (state / name).touch()
    for out in outputs:
        with pytest.raises(
            UsageError, match=r"out\.prepcli.* holds the state of the run of out; choose another output"
        ):
            refuse_state(out)
    refuse_state(tmp_path / "out")
    refuse_state(StorePath("s3://bucket/out.prepcli/claims"))
