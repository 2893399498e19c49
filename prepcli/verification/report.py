"""The report of `verify`."""

import msgspec


class VerifyReport(msgspec.Struct):
    """What was checked, and every problem found; `seconds` of audio, by the records.

    `kind`: tarred, shar (codes are a Shar's), wenet, mels, parquet, manifest, or quick (names and sizes).
    `hashes_known`: OUT.prepcli tells what
    the bytes should be, except those of `files_not_compared` files, which no known run wrote. `notes` are not problems:
    what could not be compared, and what the run has said of its rejects. The seconds of mels are not known.
    """

    out: str
    kind: str = "tarred"
    shards: int = 0
    members: int = 0
    records: int = 0
    seconds: float = 0.0
    hashes_known: bool = False
    problems: list[str] = []
    manifests: int = 0
    notes: list[str] = []
    files_not_compared: int = 0

    @property
    def status(self) -> str:
        """`ok` or `broken`."""
        return "broken" if self.problems else "ok"
