"""Checks that a shard's codes are complete and aligned with its cuts, as strictly as any loader."""

from collections.abc import Sequence
from functools import partial

import msgspec

from prepcli.commands.verify.report import VerifyReport
from prepcli.commands.verify.tarred import ShardReport
from prepcli.engine.state.workspace import Workspace
from prepcli.formats.audio_states import AUDIO_RECORD, compare_audio
from prepcli.formats.npy import read_npy
from prepcli.formats.pairs import Pair, read_pairs
from prepcli.formats.shar import decode_json
from prepcli.processes.pools import map_in_order
from prepcli.storage.paths import AnyPath

TOLERANCE = 1e-3
"""Seconds by which a rounded duration, or resampling to whole samples, may differ."""


class _Array(msgspec.Struct):
    shape: list[int]


class _TemporalArray(msgspec.Struct):
    array: _Array
    temporal_dim: int
    frame_shift: float


def compare_with_audio(workspace: Workspace, folder: AnyPath, num_workers: int, report: VerifyReport) -> None:
    """Report codes that were made from other audio than the current audio.

    Args:
        workspace: workspace of the codes.
        folder: the Shar set; audio outside of it has absolute paths.
        num_workers: maximum number of worker processes.
        report: gets a problem, and a note about audio that could not be compared.
    """
    records = sorted(workspace.root.glob(AUDIO_RECORD.format("*")))
    found = list(map_in_order(partial(compare_audio, folder=str(folder)), records, num_workers))
    changed = [path for one in found for path in one.changed]
    num_missing = sum(one.num_missing for one in found)
    if changed:
        more = f", and of {len(changed) - 1:,} more files" if len(changed) > 1 else ""
        report.problems.append(
            f"{workspace.root.name}: made of other audio than {changed[0]} holds now{more}; run extend-codec-codes "
            "again with --overwrite"
        )
    if num_missing:
        report.notes.append(
            f"{workspace.root.name}: {num_missing:,} audio files are not where they were encoded from, and were not "
            "compared with what was encoded"
        )


def check_codes(
    where: str,
    tar: AnyPath,
    sha256: str | None,
    ids: Sequence[str],
    seconds: Sequence[float | None],
    report: ShardReport,
) -> None:
    """Compare the codes in `tar` with the ids of the cuts, and their frames with the audio's `seconds` (None: unknown).

    Frames must cover the audio, and end less than one frame after it.
    """
    count = 0
    aligned = True
    for pair in read_pairs(tar, where, sha256, report.problems):
        own = ids[count] if count < len(ids) else None
        length = seconds[count] if count < len(seconds) else None
        count += 1
        if own is not None and aligned and pair.cut_id != own:
            aligned = False  # later codes are not aligned either
            report.problems.append(f"{where}: array {count} is {pair.name}, but cut {count} is {own}")
        if not pair.is_placeholder:
            _check_array(where, pair, length if aligned else None, report)
    if count != len(ids):
        report.problems.append(f"{where}: {count} arrays, but there are {len(ids)} cuts")
    report.num_members += count


def _check_array(where: str, pair: Pair, seconds: float | None, report: ShardReport) -> None:
    what = f"{where}: {pair.name}"
    try:
        manifest = decode_json(pair.manifest, _TemporalArray)
        codes = read_npy(pair.data)
    except (msgspec.DecodeError, ValueError) as error:
        report.problems.append(f"{what}: not an array with its manifest: {error}")
        return
    if codes.dtype.kind not in "iu" or codes.ndim != 2:
        report.problems.append(
            f"{what}: {codes.dtype} of shape {codes.shape}; expected integers of shape (codebooks, frames)"
        )
        return
    if list(codes.shape) != manifest.array.shape or manifest.temporal_dim not in (-1, 1):
        report.problems.append(f"{what}: its manifest says {manifest.array.shape}, it has {list(codes.shape)}")
    if codes.size and int(codes.min()) < 0:
        report.problems.append(f"{what}: codes below 0")
    if not manifest.frame_shift > 0:
        report.problems.append(f"{what}: frame shift {manifest.frame_shift} s")
    elif seconds is not None:
        beyond = codes.shape[1] * manifest.frame_shift - seconds
        if not -TOLERANCE <= beyond < manifest.frame_shift + TOLERANCE:
            report.problems.append(
                f"{what}: {codes.shape[1]} frames of {manifest.frame_shift:.6g} s, but the audio lasts {seconds:.6g} s"
            )
