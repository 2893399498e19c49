"""Records of published files as version 0.3 of prepcli wrote them: with SHA-256."""

from pathlib import Path

import msgspec

from prepcli.engine.publishing.hashes import sha256_of
from prepcli.engine.publishing.output_files import PublishedFile
from prepcli.engine.run.status import workspaces_of


def record_as_0_3(out: Path, mtime_ns: int | None = None) -> None:
    """Give each published file its SHA-256 in place of the new hash; `mtime_ns` replaces the time of last change."""
    markers = [(run, path) for run in workspaces_of(out) for path in run.marker_files()]
    assert markers
    for run, path in markers:
        marker = msgspec.json.decode(path.read_bytes())
        for place_of, kind in ((run.made_file, "files"), (run.part_file, "work_files")):
            for name, file in marker[kind].items():
                file.pop("xxh3", None)
                file["sha256"] = sha256_of(place_of(marker["unit"], name))
                if mtime_ns is not None:
                    file["mtime_ns"] = mtime_ns
                assert msgspec.convert(file, PublishedFile).hash == file["sha256"]
        path.write_bytes(msgspec.json.encode(marker))
