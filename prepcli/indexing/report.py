"""What `index` did, or found."""

import msgspec


class IndexReport(msgspec.Struct):
    """Indexes of one call.

    `status`: done, nothing_to_do, dry_run, ok (after --check), or broken (there are problems). `files` counts data
    files of this rank, `records` those of the indexes that were written or checked. `configs` are the texts to paste
    into a training config, one for each set.
    """

    status: str = "done"
    sets: list[str] = []
    files: int = 0
    written: int = 0
    kept: int = 0
    renamed: int = 0
    records: int = 0
    num_bytes: int = 0
    problems: list[str] = []
    notes: list[str] = []
    configs: list[str] = []
    pack: str | None = None
