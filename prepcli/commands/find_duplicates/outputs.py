"""The files that find-duplicates writes: groups, prints, a certificate. They appear together, in one folder."""

import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from prepcli.commands.find_duplicates.certificate import certificate_of, encoded, page_of
from prepcli.commands.find_duplicates.prints import Content, Prints, describe, write_prints
from prepcli.commands.find_duplicates.rows import NEAR_AUDIO, Rows, RowWords
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.function import OutputFile
from prepcli.engine.state.plan import Plan
from prepcli.errors import UsageError, option
from prepcli.jobs.record_job import RecordContents, RecordUnit
from prepcli.manifest.output_name import check_manifest_name


class Outputs:
    """The files of a call.

    Attributes:
        output: the one by which the run is named: OUT, else the prints, else the certificate.
    """

    def __init__(self, out: Path | None, prints: Path | None, certificate: Path | None) -> None:
        """Check the names.

        Raises:
            UsageError: there is none, a name does not suit, or a file is not in the folder of `output`.
        """
        if certificate is not None and certificate.suffix != ".json":
            raise UsageError(f"{option('--certificate', certificate)}: the name must end in .json")
        page = certificate and certificate.with_suffix(".html")
        named = {"OUT.jsonl": out, "--write-prints": prints, "--certificate": certificate, "page": page}
        paths = {name: path for name, path in named.items() if path is not None}
        if not paths:
            raise UsageError(f"name the file to write: OUT.jsonl, or {option('--write-prints')} FILE")
        self.output = OutputFile(next(iter(paths.values())))
        if out is not None and (
            os.path.isdir(out) or (os.path.exists(out) and not self.output.workspace.root.exists())
        ):
            raise UsageError(
                f"{out} exists, and is not of find-duplicates: the last file is OUT.jsonl, which is written; name "
                "another one after the inputs"
            )
        self._out, self._prints, self._certificate, self._page = out, prints, certificate, page
        self._names: dict[Path, str] = {}
        for flag, path in paths.items():
            check_manifest_name(path, "find-duplicates", "test.prints" if path == prints else "duplicates.jsonl")
            name = os.path.relpath(path, self.output.path.parent) if self._names else self.output.name
            if name.split(os.sep)[0] == os.pardir or name in self._names.values():
                raise UsageError(
                    f"{option(flag, path)}: give another name, in the folder {self.output.path.parent or '.'} of "
                    f"{self.output.name}: the files appear together"
                )
            self._names[path] = name
        self.output.patterns = [glob.escape(name) for name in self._names.values()]

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the run that name its further files."""
        further = {"--write-prints": self._prints, "--certificate": self._certificate}
        return {flag: self._names[path] for flag, path in further.items() if path is not None}

    def open_groups(self, writer: UnitWriter) -> Any:
        """Open OUT; None without it."""
        return None if self._out is None else writer.open(self.output.name)

    def write_others(
        self,
        made: Plan[RecordUnit, RecordContents],
        markers: Sequence[Marker],
        writer: UnitWriter,
        rows: Rows,
        against: Sequence[Prints],
        found: Sequence[Mapping[str, Any]],
        asked: Sequence[str],
    ) -> dict[str, Path]:
        """Write prints and certificate; returns the paths of all files.

        Args:
            made: the plan of the run.
            markers: the documents of its units.
            writer: reads the files of the units.
            rows: the keys of the records.
            against: the prints with which the inputs were compared.
            found: what was found of each kind.
            asked: the kinds that were asked for.
        """
        if self._prints is not None or self._certificate is not None:
            durations = made.contents.records.index.duration
            words = rows.words() if NEAR_AUDIO in rows.keys else ()
            counts = words.counts if isinstance(words, RowWords) else np.zeros(len(rows.record), np.int64)
            keys = {kind: of_kind for kind, of_kind in rows.keys.items() if kind != NEAR_AUDIO}
            content = Content(durations, rows.record, rows.turn, keys, counts, words)
            header = describe(content, made, markers)
            if self._prints is not None:
                write_prints(writer.open(self._names[self._prints]), header, content)
            if self._certificate is not None and self._page is not None:
                certificate = certificate_of(header, against, found, asked)
                writer.open(self._names[self._certificate]).write(encoded(certificate))
                writer.open(self._names[self._page]).write(page_of(certificate))
        named = {
            "duplicates": self._out,
            "prints": self._prints,
            "certificate": self._certificate,
            "page": self._page,
        }
        return {name: self.output.path.parent / self._names[path] for name, path in named.items() if path is not None}
