"""Inspect tars: member names, and the audio or codes of a few members."""

import tarfile
from collections.abc import Sequence

import msgspec

from prepcli.commands.inspect.audio import AudioFacts
from prepcli.commands.inspect.sample import EvenSample, spread
from prepcli.engine.run.crashes import map_refusing_crashes
from prepcli.formats.npy import read_npy
from prepcli.formats.pairs import is_placeholder, walk_pairs
from prepcli.formats.tar import open_tar, read_content, walk_headers
from prepcli.storage.paths import AnyPath

MAX_TARS = 8
"""Maximum number of tars of a set that are opened; they are evenly spread over the set."""
_MAX_AUDIO_BYTES = 256 << 20
"""Maximum total bytes of the audio members that are read from the tars of a set; one member is always read."""
_NO_AUDIO = (".json", ".npy", ".nodata", ".nometa", ".txt", ".llc")


class TarFacts(msgspec.Struct):
    """Facts on the tars of one set or field.

    `members`, `extensions`, `first_members` and `damaged` are facts on the tars that were opened.
    """

    where: str
    tars: int
    num_bytes: int
    smallest_bytes: int
    largest_bytes: int
    tars_opened: int = 0
    members: int = 0
    """Number of members in the tars that were opened."""
    extensions: dict[str, int] = {}
    first_members: list[str] = []
    damaged: list[str] = []


class CodeFacts(msgspec.Struct):
    """The codes of one field, from a sample of its arrays.

    `frames`: minimum and maximum number of frames per array. `codes`: minimum and maximum code. Both are None if no
    array could be read. `types`, `codebooks` (their number) and `frame_shift` (seconds): each value that occurs in an
    array, in ascending order.
    """

    where: str
    tars: int
    looked_at: int = 0
    types: list[str] = []
    codebooks: list[int] = []
    frames: tuple[int, int] | None = None
    codes: tuple[int, int] | None = None
    frame_shift: list[float] = []
    placeholders: int = 0
    """Number of cuts without this field."""
    damaged: list[str] = []


class _ArrayManifest(msgspec.Struct):
    frame_shift: float


def look_at_tars(where: str, tars: Sequence[AnyPath], num_audio_files: int) -> tuple[TarFacts, AudioFacts]:
    """Read the member names of at most `MAX_TARS` tars, and the audio headers of about `num_audio_files` members.

    A tar has no list of its members: each header is read on its own, and a compressed tar is read as a whole. A member
    that crashes the decoder counts as unreadable.
    """
    ((facts, audio),) = map_refusing_crashes(_look_at_tars, [(where, tars, num_audio_files)])
    return facts, audio


def _look_at_tars(task: tuple[str, Sequence[AnyPath], int]) -> tuple[TarFacts, AudioFacts]:
    where, tars, num_audio_files = task
    sizes = [path.stat().st_size for path in tars]
    facts = TarFacts(where, len(tars), sum(sizes), min(sizes, default=0), max(sizes, default=0))
    audio = AudioFacts(where=where)
    opened = spread(tars, MAX_TARS)
    wanted = -(-num_audio_files // max(len(opened), 1))
    budget = _MAX_AUDIO_BYTES
    for path in opened:
        try:
            with open_tar(path) as tar:
                facts.tars_opened += 1
                sound: EvenSample[tarfile.TarInfo] = EvenSample(min(wanted, num_audio_files - audio.looked_at))
                for member in walk_headers(tar):
                    _note(facts, member)
                    if member.isreg() and not member.name.endswith(_NO_AUDIO):
                        sound.add([member])
                for member in sound.chosen():
                    if member.size <= budget or not audio.looked_at:
                        budget -= member.size
                        audio.add_bytes(read_content(tar, member), f"{path.name}: {member.name}")
        except (tarfile.TarError, EOFError, OSError) as error:
            facts.damaged.append(f"{path.name}: {error}")
    return facts, audio


def look_at_codes(where: str, tars: Sequence[AnyPath], wanted: int) -> CodeFacts:
    """Read the shapes and values of about `wanted` arrays from at most `MAX_TARS` tars."""
    facts = CodeFacts(where, len(tars))
    opened = spread(tars, MAX_TARS)
    for path in opened:
        try:
            with open_tar(path) as tar:
                pairs: EvenSample[tuple[tarfile.TarInfo, tarfile.TarInfo]] = EvenSample(-(-wanted // len(opened)))
                for data, manifest in walk_pairs(tar):
                    if is_placeholder(data.name):
                        facts.placeholders += 1
                    else:
                        pairs.add([(data, manifest)])
                for data, manifest in pairs.chosen():
                    codes, shape = read_content(tar, data), read_content(tar, manifest)
                    _add_codes(codes, shape, f"{path.name}: {data.name}", facts)
        except (tarfile.TarError, EOFError, OSError) as error:
            facts.damaged.append(f"{path.name}: {error}")
    return facts


def _note(facts: TarFacts, member: tarfile.TarInfo) -> None:
    facts.members += 1
    if len(facts.first_members) < 5:
        facts.first_members.append(member.name)
    extension = member.name.rpartition(".")[2].lower() if "." in member.name else "none"
    facts.extensions[extension] = facts.extensions.get(extension, 0) + 1


def _add_codes(data: bytes, manifest: bytes, name: str, facts: CodeFacts) -> None:
    facts.looked_at += 1
    try:
        codes = read_npy(data)
        shift = msgspec.json.decode(manifest, type=_ArrayManifest).frame_shift
        if codes.ndim != 2 or not codes.size:
            raise ValueError(f"an array of shape {codes.shape}, not (codebooks, frames)")
    except (ValueError, msgspec.DecodeError, RecursionError) as error:
        facts.damaged.append(f"{name}: {error}")
        return
    facts.types = sorted({*facts.types, str(codes.dtype)})
    facts.codebooks = sorted({*facts.codebooks, int(codes.shape[0])})
    facts.frame_shift = sorted({*facts.frame_shift, shift})
    facts.frames = _widened(facts.frames, codes.shape[1], codes.shape[1])
    facts.codes = _widened(facts.codes, int(codes.min()), int(codes.max()))


def _widened(range_: tuple[int, int] | None, low: int, high: int) -> tuple[int, int]:
    return (low, high) if range_ is None else (min(range_[0], low), max(range_[1], high))
