"""`verify --quick`: names, sizes and ETags, as they are listed, are compared with what was published."""

from pathlib import Path

from prepcli.commands.verify.report import VerifyReport
from prepcli.commands.verify.runs import judge_runs, runs_of
from prepcli.engine.publishing.output_files import PublishedFile
from prepcli.engine.state.store_output import OutputSizes
from prepcli.errors import UsageError
from prepcli.interface.printing import printable_command


def verify_quickly(out: Path, work_dir: Path | None = None) -> VerifyReport:
    """Check that every published file is there with its size, and in a store with the ETag that it had.

    Raises:
        UsageError: there are no records of a run, with which files could be compared.
    """
    runs = runs_of(out, work_dir)
    if not runs:
        raise UsageError(
            f"--quick compares with the records of the run, and there are none for {out}: leave --quick out, or give "
            "the --work-dir of the run"
        )
    report = VerifyReport(str(out), kind="quick", hashes_known=True)
    files: dict[str, PublishedFile] = {}
    for run in runs:
        files |= run.files
        report.records += run.status.records_out
        report.seconds += run.status.seconds_done
        if not run.is_finished:
            report.problems.append(
                f"the run is not finished: {run.status.units_done} of {run.status.units} units are done; "
                f"continue with: {printable_command(run.status.continue_with or '')}"
            )
    sizes = OutputSizes(out.parent if out.is_file() else out)
    for name, file in files.items():
        if not sizes.has(name):
            report.problems.append(f"{name}: was published, but is missing")
        elif (size := sizes.of(name)) != file.num_bytes:
            report.problems.append(f"{name}: has {size:,} bytes, but {file.num_bytes:,} were published")
        elif file.etag and (etag := sizes.etag_of(name)) not in ("", file.etag):
            report.problems.append(
                f"{name}: was written again after it was published (its ETag was {file.etag}, now {etag}); verify "
                "without --quick compares the bytes"
            )
    by_etag = sum(1 for name, file in files.items() if file.etag and sizes.etag_of(name))
    what = "name, size and ETag" if by_etag == len(files) > 0 else "name and size only"
    report.notes.append(f"{len(files):,} files were compared by {what}; nothing was read")
    judge_runs(runs, report)
    return report
