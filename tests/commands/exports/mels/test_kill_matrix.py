"""The kill matrix over mels: hundreds of small files for each unit."""

import signal
from pathlib import Path

import pytest

from prepcli.commands.exports.mels import job
from tests.conftest import write_lines
from tests.support.audio_files import write_audio
from tests.support.killing import Case, KillMatrix, kill_a_worker, kill_main, undisturbed_case

pytestmark = pytest.mark.slow

NUM_UNITS = 6
BAD = 3


def make_case(folder: Path) -> Case:
    """Segments of a long file in six units, and three records without audio."""
    write_audio(folder / "talk.wav", 60.0, 22050)
    count = NUM_UNITS * job._CLIPS_PER_UNIT
    records = [
        {"audio_filepath": "talk.wav", "offset": number * 0.03, "duration": 0.4, "text": str(number)}
        for number in range(count - BAD)
    ]
    for number in range(BAD):
        records.insert(60 * number, {"audio_filepath": f"missing_{number}.wav", "duration": 1.0, "text": "x"})
    manifest = write_lines(folder / "manifest.json", records)
    options = ("--devices", "cpu")
    return undisturbed_case(folder, "manifest-to-mels", manifest, options, NUM_UNITS, BAD)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp("kill"))


class TestKills(KillMatrix):
    kills = ((kill_main, 0, 2), (kill_main, 3, 1), (kill_a_worker, 2, 5))
    signals = (signal.SIGUSR1,)
