"""Probes: one real training step with a batch size, and what came of it; each is a file that later runs read."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from prepcli.commands.estimate_batch_sizes.lines import peak_of
from prepcli.commands.estimate_batch_sizes.search import Bracket
from prepcli.engine.state.workspace import read_document, write_json

Outcome = Literal["fits", "out_of_memory", "cuda_error", "killed", "hung"]
FOLDER = "parts"
"""The folder in OUT.prepcli, one of those that `--overwrite` clears."""


class Probe(msgspec.Struct, frozen=True):
    """A step of a bucket with a batch of `size` examples.

    `peak` is the maximum of bytes in use (0 unless it fits), `reserved` what PyTorch had taken from the GPU; `seconds`
    is the time of the step, `detail` the message of an error.
    """

    digest: str
    bucket: int
    size: int
    outcome: Outcome
    peak: int = 0
    reserved: int = 0
    seconds: float = 0.0
    detail: str = ""

    @property
    def does_fit(self) -> bool:
        """Whether the step succeeded."""
        return self.outcome == "fits"


class Lines(msgspec.Struct, frozen=True):
    """The memory of a bucket as counted on the CPU: the maximum of `base + slope * size` over all lines, in bytes.

    `measured` are sizes and the peaks that were counted for them.
    """

    digest: str
    bucket: int
    lines: list[tuple[int, int]]
    measured: list[tuple[int, int]]

    def peak(self, size: int) -> int:
        """Bytes for a batch of `size` examples."""
        return peak_of(self.lines, size)


class Found(msgspec.Struct, frozen=True):
    """The longest duration, in seconds, of which one example fits; `bucket` is the first that fails."""

    digest: str
    bucket: int
    duration: float
    probes: int


class Record:
    """The probes of a search on disk; those of other settings (another digest) do not count."""

    def __init__(self, root: Path, digest: str) -> None:
        self._folder = root / FOLDER
        self.digest = digest
        self._probes: dict[int, dict[int, Probe]] = defaultdict(dict)
        self._lines: dict[int, Lines] = {}
        self.reload()

    def reload(self) -> None:
        """Read what other ranks have written as well."""
        for path in sorted(self._folder.glob("probe-*.json")):
            probe = read_document(path, Probe)
            if probe is not None and probe.digest == self.digest:
                self._probes[probe.bucket][probe.size] = probe
        for path in sorted(self._folder.glob("lines-*.json")):
            lines = read_document(path, Lines)
            if lines is not None and lines.digest == self.digest:
                self._lines[lines.bucket] = lines

    def add(self, probe: Probe) -> None:
        """Keep a result."""
        self._write(f"probe-{probe.bucket:04d}-{probe.size}.json", probe)
        self._probes[probe.bucket][probe.size] = probe

    def add_lines(self, lines: Lines) -> None:
        """Keep the estimate of a bucket."""
        self._write(f"lines-{lines.bucket:04d}.json", lines)
        self._lines[lines.bucket] = lines

    def add_longest(self, found: Found) -> None:
        """Keep the longest duration that fits."""
        self._write("longest.json", found)

    def longest(self, bucket: int) -> Found | None:
        """The longest duration that fits, where `bucket` is the first that does not."""
        found = read_document(self._folder / "longest.json", Found)
        return found if found is not None and (found.digest, found.bucket) == (self.digest, bucket) else None

    def _write(self, name: str, content: Probe | Lines | Found) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_json(self._folder / name, content, durable=False)  # a lost one is made again

    def of(self, bucket: int) -> Sequence[Probe]:
        """The probes of a bucket, by size."""
        return [probe for _, probe in sorted(self._probes[bucket].items())]

    def lines_of(self, bucket: int) -> Lines | None:
        """The estimate of a bucket."""
        return self._lines.get(bucket)

    def fitting(self) -> Iterator[Probe]:
        """All probes that fit, with a size of memory."""
        for probes in self._probes.values():
            yield from (probe for probe in probes.values() if probe.does_fit and probe.peak)

    def bracket(self, bucket: int) -> Bracket:
        """What is known of a bucket."""
        known = Bracket()
        for probe in self.of(bucket):
            known = known.with_answer(probe.size, probe.does_fit)
        return known
