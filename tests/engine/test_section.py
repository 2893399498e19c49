"""`train_ds.yaml` follows the commits of an output, and what a user has edited is never lost."""

import hashlib
from pathlib import Path

import pytest

from prepcli.engine import section as module
from prepcli.engine.ledger import Commit
from prepcli.engine.section import SECTION_FILE, is_edited, update_section
from prepcli.engine.state.workspace import Workspace, atomic_file


def commit(workspace: Workspace, text: str, part: str = "") -> Commit:
    """A commit whose section is `text`."""
    folder = hashlib.sha256(text.encode()).hexdigest()[:16]
    merged = workspace.root / folder / "units" / "finish"
    merged.mkdir(parents=True)
    (merged / SECTION_FILE).write_text(text)
    return Commit(folder, "toy", folder, part)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "out.prepcli").mkdir()
    return Workspace(tmp_path / "out")


def test_it_is_that_of_the_newest_commit(workspace: Workspace) -> None:
    path = workspace.root / SECTION_FILE
    first, more = commit(workspace, "one"), commit(workspace, "two", "version_1")
    update_section(workspace, [], [first])
    assert path.read_text() == "one"
    update_section(workspace, [first], [first, more])
    assert path.read_text() == "two"
    assert not is_edited(workspace, more)
    assert is_edited(workspace, first)
    update_section(workspace, [first, more], [first])
    assert path.read_text() == "one"
    bare = Commit("0" * 16, "toy", "")  # without a section
    update_section(workspace, [first], [bare])
    assert not path.exists()


def test_what_a_user_has_edited_is_never_lost(workspace: Workspace) -> None:
    path, kept = workspace.root / SECTION_FILE, workspace.root / "kept" / SECTION_FILE
    first, more, again = commit(workspace, "one"), commit(workspace, "two", "version_1"), commit(workspace, "three")
    update_section(workspace, [], [first])
    path.write_text("mine")
    update_section(workspace, [first], [first, more])
    assert path.read_text() == "two"
    other = commit(workspace, "two again", "version_1")
    update_section(workspace, [first, more], [first, other])
    update_section(workspace, [first, other], [first])
    assert path.read_text() == "mine"
    update_section(workspace, [first], [first, more])
    path.write_text("mine too")
    update_section(workspace, [first, more], [first])
    assert path.read_text() == "mine too"
    assert not kept.exists()
    update_section(workspace, [first], [again])
    assert (path.read_text(), kept.read_text()) == ("three", "mine too")


def test_a_killed_change_is_repeated(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = commit(workspace, "one"), commit(workspace, "two")
    update_section(workspace, [], [first])
    (workspace.root / SECTION_FILE).write_text("mine")

    def killed(path: Path, *arguments: object, **keywords: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, "atomic_file", killed)
        update_section(workspace, [first], [again])
    update_section(workspace, [first], [again])
    update_section(workspace, [first], [again])
    assert (workspace.root / SECTION_FILE).read_text() == "two"
    assert [path.read_text() for path in (workspace.root / "kept").iterdir()] == ["mine"]


def test_a_set_of_an_earlier_version(workspace: Workspace) -> None:
    """Its section lies in no unit: a copy is kept, for when an addition to it is removed."""
    root = workspace.root
    path, base = root / SECTION_FILE, Commit("", "toy", "")
    path.write_text("of 0.3")
    (root / "owned").mkdir()
    digest = hashlib.sha256(b"of 0.3").hexdigest()
    (root / "owned" / f"{SECTION_FILE}.sha256").write_text(f"\n{digest}\n")
    more = commit(workspace, "two", "version_1")
    update_section(workspace, [base], [base, more])
    assert path.read_text() == "two"
    update_section(workspace, [base, more], [base])
    assert path.read_text() == "of 0.3"
    again = commit(workspace, "three")
    update_section(workspace, [base], [again])
    assert path.read_text() == "three"
    assert not (root / "kept").exists()


def test_an_addition_that_0_3_has_made_is_removed(workspace: Workspace) -> None:
    root = workspace.root
    with atomic_file(root / SECTION_FILE) as file:
        file.write(b"two")
    (root / "version_1").mkdir()
    (root / "version_1" / SECTION_FILE).write_text("two")
    (root / "version_1" / "train_ds_before.yaml").write_text("one")
    base, more = Commit("", "toy", ""), Commit("version_1", "toy", "", "version_1")
    update_section(workspace, [base, more], [base])
    assert (root / SECTION_FILE).read_text() == "one"
