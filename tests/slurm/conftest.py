"""The cluster of a test module, and submitting to it as a user would."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, missing_programs
from tests.support.tools import lack

REPOSITORY = Path(__file__).parents[2]
SCRIPTS = REPOSITORY / "scripts/slurm"

_CLUSTER_ENV = """\
source {scripts}/cluster.env
SBATCH_EXTRA=(--nice=0)
CPU_TASKS=3 CPU_CPUS_PER_TASK=1 CPU_TIME=0:10:00
GPU_TASKS=2 GPU_CPUS_PER_TASK=1 GPU_TIME=0:10:00 GPU_OPTIONS=()
SIGNAL=USR1@25
PYTHON=({python})
PREPCLI=("${{PREPCLI_WITH:-{python}}}" -m ${{PREPCLI_MODULE:-prepcli}})
SUBMIT_PYTHON=({python})
LOG_DIR={folder}/logs
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of two nodes; it starts in two seconds, so each process of pytest has its own."""
    for program in missing_programs():
        lack(program)
    # Not below pytest's folder: sockets want short paths that all users can look through.
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    try:
        with Cluster(folder) as running:
            settings = folder / "cluster.env"
            settings.write_text(_CLUSTER_ENV.format(scripts=SCRIPTS, python=sys.executable, folder=folder))
            running.environ |= {"CLUSTER_ENV": str(settings), "PYTHONPATH": str(REPOSITORY)}
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)
