"""Corpora as they should not be: damaged archives, transcripts with odd lines, files that are not recordings."""

import gzip
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.commands.download.make_fisher import make_fisher
from tests.commands.download.miniatures import Files, an4, checksum_list, librispeech, tar
from tests.fuzz.calls import check_call, check_report, scratch
from tests.fuzz.examples import examples
from tests.fuzz.mutations import Draw, mutated

CORPORA = {
    "an4": ("an4_sphere.tar.gz", an4(), []),
    "librispeech": ("dev-clean-2.tar.gz", librispeech("dev-clean-2", ["s01"]), ["--data-sets", "dev_clean_2"]),
}


def odd_text(draw: Draw, data: bytes) -> bytes:
    """A transcript with a changed line, or changed bytes."""
    lines = data.split(b"\n")
    at = draw(st.integers(0, len(lines) - 1))
    match draw(st.integers(0, 3)):
        case 0:
            lines[at] = draw(mutated(lines[at], head=20))
        case 1:
            lines.insert(at, draw(st.binary(max_size=40)))
        case 2:
            lines[at] += lines[at]
        case _:
            del lines[at]
    whole: bytes = draw(mutated(b"\n".join(lines), most=1))
    return whole


def disturb(draw: Draw, files: Files) -> Files:
    """The files with one or two of them changed, missing, or under another name."""
    files = dict(files)
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from([*files]))
        data = files.pop(name)
        match draw(st.integers(0, 4)):
            case 0:
                pass
            case 1:
                files[
                    draw(st.sampled_from(["../up.txt", "/etc/up", "an4", "LibriSpeech", name + "/x", "\udcff.sph"]))
                ] = data
            case _:
                is_text = name.endswith((".transcription", ".trans.txt", ".fileids"))
                files[name] = odd_text(draw, data) if is_text else draw(mutated(data, head=1100))
    return files


@examples(25)
@given(st.data(), st.sampled_from([*CORPORA]))
def test_archives(data: st.DataObject, corpus: str) -> None:
    name, files, options = CORPORA[corpus]
    whole = tar(disturb(data.draw, files) if data.draw(st.booleans()) else files)
    if data.draw(st.integers(0, 3)) == 0:
        whole = data.draw(mutated(whole, head=2048))
    packed = gzip.compress(whole, 1, mtime=0)
    if data.draw(st.integers(0, 3)) == 0:
        packed = data.draw(mutated(packed))
    with scratch() as folder:
        (folder / name).write_bytes(packed)
        (folder / "md5sum.txt").write_text(checksum_list({name: packed}))
        out = folder / "data"
        arguments = ["--data-root", out, "--archive", folder / name, "--checksums", folder / "md5sum.txt"]
        arguments += [*options, "--num-workers", 1]
        # 1: what was fetched is not what is published.
        done = check_call(folder, out, "download", corpus, *arguments, allowed={0, 1, 2, 3}, stays_empty=False)
        if done.code in (0, 3):
            (workspace,) = (folder / "data.prepcli/sets").iterdir()
            check_report(workspace)


@pytest.fixture(scope="module")
def ldc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ldc")
    make_fisher(folder, 2, 8.0)
    return folder


@examples(20)
@given(st.data())
def test_fisher(ldc: Path, data: st.DataObject) -> None:
    with scratch() as folder:
        shutil.copytree(ldc, folder / "ldc")
        files = sorted(path for path in (folder / "ldc").rglob("*") if path.is_file())
        for _ in range(data.draw(st.integers(1, 3))):
            path = data.draw(st.sampled_from(files))
            content = path.read_bytes()
            head = 1024 if path.suffix == ".sph" else 200
            is_text = path.suffix == ".txt" and data.draw(st.booleans())
            path.write_bytes(odd_text(data.draw, content) if is_text else data.draw(mutated(content, head=head)))
        out = folder / "out"
        arguments = ["--ldc-root", folder / "ldc", "--dest-root", out, "--min-slice-duration", 1, "--num-workers", 1]
        done = check_call(folder, out, "download", "fisher", *arguments)
        if done.code != 2:
            check_report(folder / "out.prepcli")
