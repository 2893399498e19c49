"""Asks Slurm whether the job of a launch is in its queue."""

import re
import subprocess

_SECONDS = 10
"""The longest time that Slurm may take for the answer."""
_QUEUED = ("PENDING", "REQUEUED", "CONFIGURING")
"""The states in which a job that has run goes on by itself. If it is RUNNING, a shell may be left in it alone."""


def queued_job(launch_id: str | None) -> str:
    """Return words for the state of the Slurm job that has this launch (`prepcli.processes.ranks.Rank.launch_id`).

    Empty if the launch is not of a Slurm job, if the job is not in the queue, or if this machine does not know. A job
    that was interrupted and went back into the queue continues without another command.
    """
    job = re.match(r"slurm-(\d+)\.", launch_id or "")
    if job is None:
        return ""
    asked = ["squeue", "--noheader", f"--jobs={job[1]}", "--format=%T %r"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=_SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):  # no Slurm here, or it no longer knows the job
        return ""
    state, _, reason = answer.partition("\n")[0].strip().partition(" ")
    if state not in _QUEUED or "held" in reason.lower():
        return ""
    return f"job {job[1]} of Slurm is {state}" + (f" ({reason})" if reason not in ("", "None") else "")
