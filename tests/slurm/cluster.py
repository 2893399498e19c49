"""A real Slurm cluster on this machine: munged, slurmctld and two slurmd, all state in one temporary directory.

It runs as the user who runs the tests, has ports and sockets of its own, and knows nothing of a Slurm that may be
installed beside it. The nodes claim more processors than there are: jobs wait for each other as little as possible.
"""

import os
import pwd
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.running import HANG_SECONDS, clean_environment

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel", "squeue")
NODES = ("n1", "n2")
_SEARCHED = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "DEADLINE")

_CONFIGURATION = """\
ClusterName=prepcli
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir={folder}/spool.%n
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completed.txt
JobRequeue=1
ReturnToService=2
MinJobAge=3600
KillWait=5
InactiveLimit=0
PlugStackConfig={folder}/plugstack.conf
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1_port} CPUs=16 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2_port} CPUs=16 State=UNKNOWN
PartitionName=cpu Nodes=ALL Default=YES MaxTime=60 State=UP
PartitionName=gpu Nodes=ALL MaxTime=60 State=UP
"""


def find(program: str) -> str | None:
    """Where a program is; daemons are not on everybody's PATH."""
    return shutil.which(program, path=_SEARCHED)


def missing_programs() -> list[str]:
    """Those of Slurm's programs that this machine lacks."""
    return [program for program in PROGRAMS if find(program) is None]


def free_ports(count: int) -> list[int]:
    """TCP ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _user() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Look ten times a second until `condition` holds."""
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"after {HANG_SECONDS:g} s: {what}"
        time.sleep(0.1)


class Cluster:
    """The running cluster; `folder` must have a short path, for sockets. Use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.environ = clean_environment(
            SLURM_CONF=str(folder / "slurm.conf"),
            MUNGE_SOCKET=str(folder / "munge.socket"),
            PATH=_SEARCHED,
            SBATCH_EXPORT="ALL",
        )

    def __enter__(self) -> "Cluster":
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        folder = self.folder
        folder.chmod(0o755)  # munged refuses a socket where others may write
        (folder / "state").mkdir()
        (folder / "plugstack.conf").touch()
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        controller_port, n1_port, n2_port = free_ports(3)
        (folder / "slurm.conf").write_text(
            _CONFIGURATION.format(
                folder=folder,
                user=_user(),
                host=socket.gethostname().partition(".")[0],
                controller_port=controller_port,
                n1_port=n1_port,
                n2_port=n2_port,
            )
        )
        self._daemon(
            "munged",
            "--foreground",
            f"--key-file={key}",
            f"--socket={folder}/munge.socket",
            f"--pid-file={folder}/munged.pid",
            f"--log-file={folder}/munged.log",
            f"--seed-file={folder}/munged.seed",
        )
        wait_until(lambda: (folder / "munge.socket").exists(), f"munged has no socket\n{self.logs()}")
        self._daemon("slurmctld", "-D", "-c")
        for node in NODES:
            (folder / f"spool.{node}").mkdir()
            self._daemon("slurmd", "-D", "-N", node)
        wait_until(self._is_up, "the nodes do not become idle")

    def _daemon(self, program: str, *arguments: str) -> None:
        # Should the tests be killed, the daemons get SIGTERM.
        lifeline = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        with (self.folder / f"{program}.out").open("ab") as output:
            self._daemons.append(
                subprocess.Popen(
                    [*lifeline, find(program) or program, *arguments],
                    env=self.environ,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )

    def _is_up(self) -> bool:
        for daemon in self._daemons:
            assert daemon.poll() is None, f"{daemon.args!r} ended: {self.logs()}"
        found = self.run("sinfo", "--noheader", "--Node", "--partition=cpu", "--format=%t", check=False)
        return found.split() == ["idle"] * len(NODES)

    def stop(self) -> None:
        """End all jobs, then the daemons, by their own process ids."""
        if len(self._daemons) > 1:
            self.run("scancel", f"--user={_user()}", check=False)
            self.run("scancel", "--signal=KILL", f"--user={_user()}", check=False)
            deadline = time.monotonic() + HANG_SECONDS
            while self.run("squeue", "--noheader", "--states=R,CG", check=False).strip():
                if time.monotonic() > deadline:
                    break
                time.sleep(0.2)
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons.clear()

    def logs(self) -> str:
        """The ends of the daemons' logs, for messages."""
        return "\n".join(
            f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in sorted(self.folder.glob("*.log"))
        )

    def run(
        self,
        *command: object,
        check: bool = True,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> str:
        """Run a command as a user of the cluster; its standard output."""
        done = subprocess.run(
            [str(word) for word in command],
            env=self.environ | dict(environ or {}),
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def jobs(self, job: str) -> list[dict[str, str]]:
        """What the controller says of a job, one entry for each task of an array."""
        text = self.run("scontrol", "--oneliner", "show", "job", job)
        return [dict(re.findall(r"(\w+(?:/\w+)?)=(\S*)", line)) for line in text.splitlines() if "JobId=" in line]

    def states(self, job: str) -> list[str]:
        """The states of a job's tasks."""
        return [one["JobState"] for one in self.jobs(job)]

    def wait(self, job: str) -> list[str]:
        """Until the job (all tasks of it) has ended; its states."""
        wait_until(lambda: all(state in _ENDED for state in self.states(job)), f"job {job} goes on")
        return self.states(job)
