"""The jobs that are disturbed: those of the kill matrix, and a download besides."""

from collections.abc import Callable
from pathlib import Path

from tests.jobs.kill_cases import JOBS as KILLED
from tests.jobs.kill_cases import download_an4
from tests.jobs.killing import Case

LEFT_OUT = ("indexed-shar", "download", "lhotse", "index")
MAKERS: dict[str, Callable[[Path], Case]] = {
    **{name: job.make for name, job in KILLED.items() if name not in LEFT_OUT},
    "an4": download_an4,
}
"""What makes the case of a job, after one whole run in a folder."""
JOBS = tuple(MAKERS)
