"""Names of audio in a manifest, and the lines of a source."""

from pathlib import Path

from prepcli.commands.make_manifest.source import PathNames, stem_of, text_lines


def test_names_are_relative_to_the_folder_of_the_manifest(tmp_path: Path) -> None:
    """Also through a link, after which `..` leads elsewhere."""
    for folder in ("out", "audio/deep"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "out/linked").symlink_to(tmp_path / "audio/deep")
    names = PathNames(tmp_path / "out", absolute=False)
    assert names.name(f"{tmp_path}/out/a.wav") == "a.wav"
    assert names.name(f"{tmp_path}/out/linked/a.wav") == "linked/a.wav"
    assert names.name(f"{tmp_path}/audio/a.wav") == "../audio/a.wav"
    assert names.name(f"{tmp_path}/out/linked/../a.wav") == "../audio/a.wav"
    assert names.name(f"{tmp_path}/out/linked/../x.tar::b/../../a.wav") == "../audio/x.tar::b/../../a.wav"
    assert PathNames(tmp_path / "out", absolute=True).name(f"{tmp_path}/audio/a.wav") == f"{tmp_path}/audio/a.wav"


def test_lines_without_blank_ones_and_ends(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes(b"\xef\xbb\xbfa.wav\r\n\n \t\nb \xff.wav")
    assert list(text_lines(str(tmp_path / "list.txt"))) == [(1, "a.wav"), (4, "b \udcff.wav")]


def test_a_stem_ends_at_the_suffix_of_audio() -> None:
    assert [stem_of(path) for path in ("a/x.1.wav", "a/x.1", "x.FLAC")] == ["x.1", "x.1", "x"]
