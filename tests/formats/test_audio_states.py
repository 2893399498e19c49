"""What is said of audio that is not as it was when codes were made from it."""

import tarfile
from pathlib import Path

import pytest

from prepcli.engine.state.workspace import write_json
from prepcli.formats.audio_states import AudioState, Compared, audio_state, compare_audio, file_digest
from prepcli.formats.members import forget
from tests.conftest import SHORT_CORPUS


def write_tar(path: Path, *names: str) -> None:
    with tarfile.open(path, "w") as out:
        for name in names:
            out.add(SHORT_CORPUS / "s01" / f"{name}.flac", f"{name}.flac")


@pytest.mark.parametrize(
    ("later", "found"),
    [(("s01_u2", "s01_u1"), (0, 0)), (("s01_u2",), (0, 1)), ((), (0, 1)), (None, (0, 1))],
    ids=["elsewhere in the tar", "left out", "empty tar", "no tar"],
)
def test_a_tar_that_was_written_again(later: tuple[str, ...] | None, found: tuple[int, int], tmp_path: Path) -> None:
    tar, record = tmp_path / "a.tar", tmp_path / "states.json"
    write_tar(tar, "s01_u1", "s01_u2")
    path = f"{tar}::s01_u1.flac"
    state = audio_state(path)
    write_json(record, {path: AudioState.of(state, file_digest(path, state))})
    assert compare_audio(record, str(tmp_path)) == Compared([], 0)
    tar.unlink()
    if later is not None:
        write_tar(tar, *later)
    forget()  # as in another run
    changed, num_missing = compare_audio(record, str(tmp_path))
    assert (len(changed), num_missing) == found
