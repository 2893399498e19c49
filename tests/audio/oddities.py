"""Audio files as others leave them: joined, cut, copied without decoding, without a length, with other codecs.

`python -m tests.audio.oddities` prints the table for docs/formats.md.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from tests.audio.bench import FIRST, SECOND, Bench, chunk, fmt, ogg_pages, renumbered, rf64, riff, stated, with_length
from tests.audio.signals import RATE, id3v2, written

BOTH = FIRST + SECOND
COPIED, AGAIN, BY_FFMPEG, REJECTED = "copied", "encoded again", "encoded again, through ffmpeg", "rejected"


Make = Callable[[Bench], bytes]


class Oddity(NamedTuple):
    """A file: its container and codec, what is odd, how it is made, and what becomes of it.

    Attributes:
        seconds: those that the manifest has to have; 0 if the file is rejected.
        words: a part of the reason of the reject.
        programs: whether programs (ffmpeg, flac) make the file.
    """

    name: str
    container: str
    codec: str
    what: str
    outcome: str
    seconds: float
    make: Make
    words: str = ""
    programs: bool = True


def _wav(name: str, what: str, outcome: str, seconds: float, make: Make, words: str = "") -> Oddity:
    return Oddity(f"wav_{name}.wav", "WAV", "PCM", what, outcome, seconds, make, words, programs=False)


def _sizes() -> Iterator[Oddity]:
    sizes = (0x7FFFF000, 0xFFFFFFFF, 0x80000000, 0x7FFFFF00, 2_000_000_000, 0xFFFFFFFF - 36, 0x7FFFFFFF - 36)
    for size in sizes:
        yield _wav(
            f"size_{size:x}",
            f"the size {size:#x} for unknown",
            COPIED,
            FIRST,
            lambda bench, size=size: riff(fmt(), chunk(b"data", bench.a.tobytes(), size)),  # type: ignore[misc]
        )
    yield _wav(
        "size_0",
        "the size 0 for unknown",
        AGAIN,
        FIRST,
        lambda bench: riff(fmt(), chunk(b"data", bench.a.tobytes(), 0)),
    )


def _of_wav() -> Iterator[Oddity]:
    other = chunk(b"LIST", b"INFOabcd")
    yield _wav("plain", "plain", COPIED, FIRST, lambda b: riff(fmt(), b.data))
    yield _wav("before", "other chunks before the audio", COPIED, FIRST, lambda b: riff(other, fmt(), other, b.data))
    yield _wav("after", "other chunks after the audio", COPIED, FIRST, lambda b: riff(fmt(), b.data, other, other))
    yield _wav("tag", "a tag or padding after the file", COPIED, FIRST, lambda b: riff(fmt(), b.data) + id3v2(100))
    yield _wav("zeros", "zeros after the file", COPIED, FIRST, lambda b: riff(fmt(), b.data) + bytes(9000))
    yield from _sizes()
    yield _wav(
        "byte", "a size that is a byte too large", COPIED, FIRST, lambda b: riff(fmt(), b"data\1\xfa\0\0" + b.data[8:])
    )
    yield _wav("half", "the second half is missing", REJECTED, 0, lambda b: riff(fmt(), b.data)[:32000], "ends early")
    yield _wav(
        "riffs",
        "several files one after the other",
        AGAIN,
        2 * FIRST + SECOND,
        lambda b: riff(fmt(), b.data) * 2 + riff(fmt(), b.more),
    )
    yield _wav(
        "streams",
        "several files without sizes one after the other",
        AGAIN,
        BOTH,
        lambda b: (
            riff(fmt(), chunk(b"data", b.a.tobytes(), 0xFFFFFFFF))
            + riff(fmt(), chunk(b"data", b.b.tobytes(), 0xFFFFFFFF))
        ),
    )
    yield _wav(
        "rates",
        "several files of different rates",
        REJECTED,
        0,
        lambda b: riff(fmt(), b.data) + riff(fmt(8000), b.more),
        "different formats",
    )
    yield _wav("two_data", "two `data` chunks", AGAIN, BOTH, lambda b: riff(fmt(), b.data, other, b.more))
    yield _wav("two_fmt", "two equal `fmt ` chunks", AGAIN, FIRST, lambda b: riff(fmt(), fmt(), b.data))
    yield _wav(
        "other_fmt",
        "two different `fmt ` chunks",
        REJECTED,
        0,
        lambda b: riff(fmt(), fmt(8000), b.data),
        "different formats",
    )
    yield _wav(
        "first_only",
        "a size that counts the first part only",
        REJECTED,
        0,
        lambda b: riff(fmt(), b.data) + b.b.tobytes(),
        "longer than its header says",
    )
    a = lambda b: chunk(b"data", b.a.tobytes(), 0xFFFFFFFF)  # noqa: E731
    for name, what, outcome, seconds, make, words in (
        ("plain", "plain", COPIED, FIRST, lambda b: rf64(len(b.a) * 2, fmt(), a(b)), ""),
        ("zero", "not finished: the size is 0", AGAIN, FIRST, lambda b: rf64(0, fmt(), a(b)), ""),
        ("minus", "not finished: the size is -1", AGAIN, FIRST, lambda b: rf64((1 << 64) - 1, fmt(), a(b)), ""),
        (
            "none",
            "not finished: without `ds64`",
            AGAIN,
            FIRST,
            lambda b: riff(fmt(), a(b), size=0xFFFFFFFF, magic=b"RF64"),
            "",
        ),
        (
            "short",
            "a size that counts the first part only",
            REJECTED,
            0,
            lambda b: rf64(len(b.a), fmt(), a(b)),
            "longer than its header says",
        ),
    ):
        yield Oddity(f"rf64_{name}.wav", "RF64", "PCM", what, outcome, seconds, make, words, programs=False)
    yield Oddity(
        "bw64.wav",
        "BW64",
        "PCM",
        "plain",
        AGAIN,
        FIRST,
        lambda b: rf64(len(b.a) * 2, fmt(), a(b), magic=b"BW64"),
        programs=False,
    )


def _by_ffmpeg(bench: Bench, which: str, suffix: str, codec: str) -> bytes:
    return bench.ffmpeg(which, suffix, "-c:a", codec)


def _plain(bench: Bench, container: str) -> bytes:
    return written(bench.a, container, "PCM_16")


def _with_rest(bench: Bench, container: str) -> bytes:
    return _plain(bench, container) + bench.b.tobytes()


def _of_codecs_in_wav() -> Iterator[Oddity]:
    for codec, name, which, outcome, seconds in (
        ("adpcm_ms", "MS ADPCM", "a", COPIED, 2.036),
        ("pcm_alaw", "A-law", "a", COPIED, FIRST),
        ("libgsm_ms", "GSM", "a8", COPIED, FIRST),
        ("libmp3lame", "MP3", "a", AGAIN, 2.088),
        ("mp2", "MP2", "a", AGAIN, 2.016),
        ("g726", "G.726", "a8", BY_FFMPEG, FIRST),
        ("adpcm_yamaha", "Yamaha ADPCM", "a", BY_FFMPEG, 2.048),
        ("ac3", "AC-3", "stereo", BY_FFMPEG, 3.168),
        ("flac", "FLAC", "a", BY_FFMPEG, FIRST),
    ):
        yield Oddity(
            f"codec_{codec}.wav",
            "WAV",
            name,
            "plain",
            outcome,
            seconds,
            partial(_by_ffmpeg, which=which, suffix=".wav", codec=codec),
        )
    yield Oddity(
        "codec_vbr.wav",
        "WAV",
        "MP3",
        "variable bit rate",
        AGAIN,
        11.343,
        lambda b: b.copied(".wav", [b.mp3("long", "-q:a", 4)]),
    )
    yield Oddity(
        "codec_vorbis.wav",
        "WAV",
        "Vorbis",
        "ffmpeg decodes the first packet only",
        REJECTED,
        0,
        lambda b: b.ffmpeg("a", ".wav", "-c:a", "libvorbis"),
        "holds Vorbis in WAV",
    )


def _flac(name: str, what: str, outcome: str, seconds: float, make: Make, words: str = "") -> Oddity:
    return Oddity(f"flac_{name}.flac", "FLAC", "FLAC", what, outcome, seconds, make, words)


def _of_flac() -> Iterator[Oddity]:
    yield _flac("reference", "plain", COPIED, FIRST, lambda b: b.flac("a"))
    yield _flac("ffmpeg", "plain, by ffmpeg", COPIED, FIRST, lambda b: b.ffmpeg("a", ".flac"))
    yield _flac("tagged", "ID3v2 before it", COPIED, FIRST, lambda b: id3v2() + b.flac("a"))
    yield _flac("junk", "other data after it", COPIED, FIRST, lambda b: b.flac("a") + b"junk" * 50)
    yield _flac("unknown", "the length 0 for unknown", AGAIN, FIRST, lambda b: with_length(b.flac("a"), 0))
    yield _flac("less", "a length that is too short", AGAIN, FIRST, lambda b: with_length(b.flac("a"), RATE))
    yield _flac(
        "more", "a length that is too long", REJECTED, 0, lambda b: with_length(b.flac("a"), 4 * RATE), "ends early"
    )
    yield _flac("half", "the second half is missing", REJECTED, 0, lambda b: b.flac("a")[:20000], "ends early")
    yield _flac(
        "joined", "files joined without decoding", AGAIN, BOTH, lambda b: b.copied(".flac", [b.flac("a"), b.flac("b")])
    )
    yield _flac(
        "equal",
        "files of the same length joined without decoding",
        AGAIN,
        2 * FIRST,
        lambda b: b.copied(".flac", [b.flac("a"), b.flac("other")]),
    )
    yield _flac("cat", "files one after the other", AGAIN, BOTH, lambda b: b.flac("a") + b.flac("b"))
    yield _flac(
        "cat_equal",
        "files of the same length one after the other",
        AGAIN,
        2 * FIRST,
        lambda b: b.flac("a") + b.flac("other"),
    )
    yield _flac(
        "rates",
        "files of different rates joined without decoding",
        REJECTED,
        0,
        lambda b: b.copied(".flac", [b.ffmpeg("a", ".flac"), b.ffmpeg("b22", ".flac")]),
        "different formats",
    )
    yield _flac(
        "piece",
        "the end of a file, cut without decoding",
        AGAIN,
        3.108,
        lambda b: b.copied(".flac", [b.flac("long")], "-ss", 8.2),
    )
    yield _flac(
        "middle",
        "the middle of a file, cut without decoding",
        AGAIN,
        2.304,
        lambda b: b.copied(".flac", [b.flac("long")], "-ss", 3, "-t", 2),
    )
    yield _flac(
        "head",
        "the start of a file, cut without decoding",
        REJECTED,
        0,
        lambda b: b.copied(".flac", [b.flac("long")], "-t", 3),
        "ends early",
    )
    yield Oddity(
        "in_ogg.oga", "Ogg", "FLAC", "plain", BY_FFMPEG, FIRST, lambda b: b.ffmpeg("a", ".oga", "-c:a", "flac")
    )


def _mp3(name: str, what: str, outcome: str, seconds: float, make: Make, words: str = "") -> Oddity:
    return Oddity(f"mp3_{name}.mp3", "MP3", "MP3", what, outcome, seconds, make, words)


NO_XING = ("-b:a", "48k", "-write_xing", 0)


def _of_mp3() -> Iterator[Oddity]:
    tagged = ("-b:a", "48k", "-metadata", "title=x", "-write_id3v1", 1, "-id3v2_version", 3)
    yield _mp3("xing", "plain", COPIED, FIRST, lambda b: b.mp3("a"))
    yield _mp3("vbr", "variable bit rate", COPIED, 11.3, lambda b: b.mp3("long", "-q:a", 4))
    yield _mp3("tags", "with tags", COPIED, FIRST, lambda b: b.mp3("a", *tagged))
    yield _mp3("no_xing", "without a header", COPIED, 2.088, lambda b: b.mp3("a", *NO_XING))
    yield _mp3("info_0", "a header that states 0 frames", COPIED, 2.088, lambda b: stated(b.mp3("a"), 0))
    yield _mp3("info_none", "a header without a number of frames", COPIED, 2.088, lambda b: stated(b.mp3("a"), None))
    yield _mp3("info_max", "a header with the largest number", AGAIN, 2.055, lambda b: stated(b.mp3("a"), 0xFFFFFFFF))
    yield _mp3("half_stated", "a header that states half of the frames", AGAIN, 2.055, lambda b: stated(b.mp3("a"), 29))
    yield _mp3("joined", "files one after the other", AGAIN, 5.331, lambda b: b.mp3("a") + b.mp3("b"))
    yield _mp3(
        "joined_tags",
        "files with tags one after the other",
        AGAIN,
        5.331,
        lambda b: b.mp3("a", *tagged) + b.mp3("b", *tagged),
    )
    yield _mp3(
        "joined_no_xing",
        "files without headers one after the other",
        COPIED,
        5.328,
        lambda b: b.mp3("a", *NO_XING) + b.mp3("b", *NO_XING),
    )
    yield _mp3(
        "rates",
        "the sampling rate changes",
        REJECTED,
        0,
        lambda b: b.mp3("a", *NO_XING) + b.mp3("b22", *NO_XING),
        "changes its sampling rate",
    )
    yield _mp3(
        "channels",
        "the number of channels changes",
        REJECTED,
        0,
        lambda b: b.mp3("a", *NO_XING) + b.mp3("stereo", *NO_XING),
        "changes its sampling rate or channels",
    )
    yield _mp3("cut", "the second half is missing", REJECTED, 0, lambda b: b.mp3("a")[:6001], "ends early")
    yield _mp3(
        "hole",
        "frames in the middle are missing",
        REJECTED,
        0,
        lambda b: b.mp3("a")[:6000] + b.mp3("a")[6700:],
        "ends early",
    )
    yield _mp3(
        "mid_junk",
        "other data between frames",
        COPIED,
        FIRST,
        lambda b: b.mp3("a")[:6000] + b"junk" * 100 + b.mp3("a")[6000:],
    )


def _of_ogg() -> Iterator[Oddity]:
    for codec, encoder, suffix in (("Vorbis", "libvorbis", ".ogg"), ("Opus", "libopus", ".opus")):
        name = codec.lower()
        encode = partial(_by_ffmpeg, suffix=suffix, codec=encoder)
        for which, what, outcome, seconds, make, words in (
            ("plain", "plain", COPIED, 11.3, lambda b, e=encode: e(b, which="long"), ""),
            (
                "chained",
                "files one after the other",
                AGAIN,
                BOTH,
                lambda b, e=encode: e(b, which="a") + e(b, which="b"),
                "",
            ),
            (
                "lost",
                "a page is missing",
                REJECTED,
                0,
                lambda b, e=encode: b"".join(p for k, p in enumerate(ogg_pages(e(b, which="long"))) if k != 6),
                "a page is missing",
            ),
            (
                "renumbered",
                "a page is missing and the others are numbered",
                REJECTED,
                0,
                lambda b, e=encode: renumbered([p for k, p in enumerate(ogg_pages(e(b, which="long"))) if k != 6]),
                "could be decoded",
            ),
            (
                "cut",
                "the last page is missing",
                REJECTED,
                0,
                lambda b, e=encode: b"".join(ogg_pages(e(b, which="long"))[:-1]),
                "ends early",
            ),
            (
                "late",
                "a recording of a stream: its first pages are missing",
                COPIED,
                0,
                lambda b, e=encode: b"".join(p for k, p in enumerate(ogg_pages(e(b, which="long"))) if not 2 <= k < 6),
                "",
            ),
        ):
            yield Oddity(f"{name}_{which}{suffix}", "Ogg", codec, what, outcome, seconds, make, words)
    yield Oddity(
        "vorbis_joined.ogg",
        "Ogg",
        "Vorbis",
        "files joined without decoding",
        COPIED,
        BOTH,
        lambda b: b.copied(".ogg", [b.ffmpeg(which, ".ogg", "-c:a", "libvorbis") for which in ("a", "b")]),
    )
    yield Oddity(
        "opus_joined.opus",
        "Ogg",
        "Opus",
        "files joined without decoding",
        REJECTED,
        0,
        lambda b: b.copied(".opus", [b.ffmpeg("a", ".opus"), b.ffmpeg("b", ".opus")]),
        "could be decoded",
    )
    yield Oddity(
        "mixed.ogg",
        "Ogg",
        "Vorbis, Opus",
        "files of different codecs one after the other",
        AGAIN,
        BOTH,
        lambda b: b.ffmpeg("a", ".ogg", "-c:a", "libvorbis") + b.ffmpeg("b", ".opus"),
    )


def _others() -> Iterator[Oddity]:
    for kind, suffix in (("AIFF", ".aiff"), ("AU", ".au"), ("W64", ".w64")):
        plain = partial(_plain, container=kind)
        yield Oddity(f"plain_{suffix[1:]}{suffix}", kind, "PCM", "plain", COPIED, FIRST, plain, programs=False)
        yield Oddity(
            f"rest_{suffix[1:]}{suffix}",
            kind,
            "PCM",
            "a size that counts the first part only",
            REJECTED,
            0,
            partial(_with_rest, container=kind),
            "longer than its header says",
            programs=False,
        )
    yield Oddity(
        "unknown_au.au",
        "AU",
        "PCM",
        "the size 0x80000000 for unknown",
        AGAIN,
        FIRST,
        lambda b: (d := written(b.a, "AU", "PCM_16"))[:8] + b"\x80\0\0\0" + d[12:],
        programs=False,
    )
    yield Oddity(
        "alac.caf", "CAF", "ALAC", "plain", REJECTED, 0, lambda b: b.ffmpeg("a", ".caf", "-c:a", "alac"), "alac in CAF"
    )
    yield Oddity("aac.ts", "MPEG-TS", "AAC", "plain", BY_FFMPEG, 2.112, lambda b: b.ffmpeg("a", ".ts", "-c:a", "aac"))
    yield Oddity(
        "pcm.avi", "AVI", "PCM", "plain", BY_FFMPEG, FIRST, lambda b: b.ffmpeg("a", ".avi", "-c:a", "pcm_s16le")
    )
    yield Oddity(
        "twice_mp4.m4a",
        "MP4",
        "AAC",
        "files one after the other",
        REJECTED,
        0,
        lambda b: 2 * b.ffmpeg("a", ".m4a", "-c:a", "aac"),
        "several MP4 files",
    )
    yield Oddity(
        "twice_wma.wma",
        "WMA",
        "WMA",
        "files one after the other",
        REJECTED,
        0,
        lambda b: 2 * b.ffmpeg("stereo", ".wma", "-c:a", "wmav2"),
        "longer than its header says",
    )


ODDITIES = tuple(
    oddity for some in (_of_wav, _of_codecs_in_wav, _of_flac, _of_mp3, _of_ogg, _others) for oddity in some()
)
"""All files, by container."""


def table() -> str:
    """The table for docs/formats.md."""
    rows = ["| container | codec | file | what is done |", "|---|---|---|---|"]
    rows += [f"| {one.container} | {one.codec} | {one.what} | {one.outcome} |" for one in ODDITIES]
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
