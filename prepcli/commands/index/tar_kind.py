"""Finds out which kind of index a tar needs, from its name or its first members."""

import tarfile
from itertools import islice

from prepcli.formats.codes import CODES_FILE
from prepcli.formats.indexes import IndexKind
from prepcli.formats.pairs import stem
from prepcli.formats.shar import AUDIO_FILE
from prepcli.formats.tar import walk_headers
from prepcli.formats.tarred import TAR_FILE
from prepcli.storage.paths import AnyPath


def tar_kind(path: AnyPath) -> IndexKind:
    """The kind of a tar: `shar_tar` if its name or first members show pairs of data and manifest, else `nemo_tar`."""
    if AUDIO_FILE.match(path.name) or CODES_FILE.match(path.name):
        return "shar_tar"
    if TAR_FILE.match(path.name):
        return "nemo_tar"
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as tar:
            names = [member.name for member in islice(walk_headers(tar), 2)]
    except (tarfile.TarError, OSError, EOFError):
        return "nemo_tar"  # indexing the tar reports the problem
    is_pair = len(names) == 2 and names[1].endswith((".json", ".nometa")) and stem(names[0]) == stem(names[1])
    return "shar_tar" if is_pair else "nemo_tar"
