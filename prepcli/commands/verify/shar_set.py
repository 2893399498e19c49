"""Checks of a whole Shar data set, or of codes beside one."""

from pathlib import Path

from prepcli.commands.verify.indexes import moved_from
from prepcli.commands.verify.report import VerifyReport
from prepcli.commands.verify.shar import Hashes, check_shar_shard, crashed, find_shards, repeated_ids
from prepcli.commands.verify.shards import Hashed, add_shard
from prepcli.engine.run.status import workspaces_of
from prepcli.engine.state.plan import StoredPlan
from prepcli.engine.state.workspace import read_document
from prepcli.errors import UsageError
from prepcli.formats.shar import is_shar
from prepcli.interface.bars import with_bar
from prepcli.processes.pools import map_past_crashes
from prepcli.storage.addresses import join
from prepcli.storage.paths import path_of


def verify_shar_set(
    folder: Path, codes_in: Path | None, sha256: Hashed, num_workers: int, report: VerifyReport
) -> None:
    """Check the Shar set in `folder`; `codes_in` is where its codes are, if not there."""
    report.kind = "shar"
    try:
        shards, problems = find_shards(folder, sha256, codes_in)
    except UsageError as error:
        report.problems.append(str(error))
        return
    report.problems += problems
    if shards and (note := moved_from(codes_in or folder, shards[0].cuts)):
        report.notes.append(note)
    hashes: list[Hashes] = []
    results = map_past_crashes(check_shar_shard, shards, num_workers, crashed)
    for shard in with_bar(results, len(shards), "verify", "shards"):
        add_shard(shard, "", report)
        hashes.append(shard.id_hashes)
    report.problems += repeated_ids(shards, hashes)


def coded_set(out: Path, work_dir: Path | None) -> Path:
    """The Shar set whose codes are in `out`, from the plans beside it."""
    for workspace in workspaces_of(out, work_dir):
        plan = read_document(workspace.plan_file, StoredPlan)
        if plan is None:
            continue
        for file in plan.inputs:
            folder = path_of(join(plan.run_in, file["path"])).parent.parent
            if is_shar(folder):
                return folder
    raise UsageError(
        f"{out} holds codes, but the Shar set they belong to cannot be found; give the directory that has its cuts"
    )
