"""Kaldi data directories: segments, repeated utterances, paths, and commands in wav.scp."""

import tarfile
from pathlib import Path

from tests.commands.make_manifest.test_formats import make, paths, rejects, write_lines_of
from tests.conftest import read_lines
from tests.support.running import prepcli


class TestKaldi:
    def folder(self, tmp_path: Path, **files: str) -> Path:
        for name, text in files.items():
            write_lines_of(tmp_path / "data/train" / name.replace("_", "."), text)
        return tmp_path / "data/train"

    def test_segments(self, audio: Path, tmp_path: Path) -> None:
        segments = "u1 r 0.25 0.75\nu2 r 0.5 -1\nu3 r 0.9 1.2\nu4 gone 0 1\nu5 r 0.5\nu6 r 0.5 0.1\nu7 r 0 0.1\n"
        segments += "u8 r 0.1 0.3\nu9 r 0.5 0.5"
        text = "u1 one\nu2\nu3 x\nu4 x\nu8 8\nu9 9"
        folder = self.folder(tmp_path, wav_scp=f"r {audio}/b/y.flac", segments=segments, text=text)
        make(folder, tmp_path / "m.json")
        assert read_lines(tmp_path / "m.json") == [
            {"audio_filepath": "audio/b/y.flac", "duration": 0.5, "offset": 0.25, "text": "one", "id": "u1"},
            {"audio_filepath": "audio/b/y.flac", "duration": 0.5, "offset": 0.5, "text": "", "id": "u2"},
            # 0.3 - 0.1 is less
            {"audio_filepath": "audio/b/y.flac", "duration": 0.2, "offset": 0.1, "text": "8", "id": "u8"},
        ]
        reasons = ["beyond_audio", "missing_field", "bad_field", "bad_duration", "missing_field", "bad_duration"]
        found = rejects(tmp_path / "m.json")
        assert [reject["reject_reason"] for reject in found] == reasons
        assert [reject.get("id") for reject in found] == ["u3", "u4", None, None, "u7", None]

    def test_segments_of_a_file_with_two_channels(self, audio: Path, tmp_path: Path) -> None:
        segments = "u1 r 0.25 0.75 1\nu2 r 0.5 -1 0\nu3 r 0 1 left\nu4 r 0 1 0 0"
        folder = self.folder(tmp_path, wav_scp=f"r {audio}/b/y.flac", segments=segments)
        make(folder, tmp_path / "m.json")
        assert [(line["id"], line["channel"]) for line in read_lines(tmp_path / "m.json")] == [("u1", 1), ("u2", 0)]
        details = [reject["reject_detail"] for reject in rejects(tmp_path / "m.json")]
        wanted = "must be: utterance recording start end [channel from 0]"
        assert details == [f"the line has {words} words; it {wanted}" for words in (5, 6)]

    def test_an_utterance_twice(self, audio: Path, tmp_path: Path) -> None:
        folder = self.folder(tmp_path, wav_scp=f"u {audio}/a/x.wav\nu {audio}/b/x.wav\nv {audio}/b/y.flac")
        make(folder, tmp_path / "m.json")
        assert paths(tmp_path / "m.json") == ["audio/a/x.wav", "audio/b/y.flac"]
        (reject,) = rejects(tmp_path / "m.json")
        assert (reject["reject_reason"], reject["manifest_line"], reject["id"]) == ("bad_field", 2, "u")
        assert reject["reject_detail"] == "the id u is there twice, in wav.scp:1 and in wav.scp:2; the first is used"

    def test_a_line_twice_in_another_file(self, audio: Path, tmp_path: Path) -> None:
        """The first is used; the second is a reject of its own, in each file."""
        folder = self.folder(
            tmp_path,
            wav_scp=f"r {audio}/b/y.flac\nr {audio}/a/x.wav",
            segments="u 0 0.5\nv r 0 0.5\nv r 0.5 1\nw r 0.5 1",
            text="v one\n\nw two\nv three",
            utt2spk="v s1\nw s2\nw s2",
        )
        done = make(folder, tmp_path / "m.json")
        found = [(line["id"], line["text"], line["speaker"]) for line in read_lines(tmp_path / "m.json")]
        assert found == [("v", "one", "s1"), ("w", "two", "s2")]
        assert sorted(reject["reject_detail"] for reject in rejects(tmp_path / "m.json")) == [
            "the id r is there twice, in wav.scp:1 and in wav.scp:2; the first is used",
            "the id v is there twice, in segments:2 and in segments:3; the first is used",
            "the id v is there twice, in text:1 and in text:4; the first is used",
            "the id w is there twice, in utt2spk:2 and in utt2spk:3; the first is used",
            "the line has 3 words; it must be: utterance recording start end [channel from 0]",
        ]
        assert "match no audio" not in done.out

    def test_lines_that_belong_to_nothing_are_counted(self, audio: Path, tmp_path: Path) -> None:
        folder = self.folder(
            tmp_path,
            wav_scp=f"r {audio}/b/y.flac\nother {audio}/a/x.wav",
            segments="u r 0 0.5",
            text="u one\nv two\nw three",
            utt2spk="u s1",
        )
        done = make(folder, tmp_path / "m.json", "--max-rejects", 0)
        assert f"2 of 3 lines of {folder}/text match no audio" in done.out
        assert "left out of wav.scp: 1 of 2 recordings, without a segment" in done.out
        assert "utt2spk" not in done.out
        assert len(read_lines(tmp_path / "m.json")) == 1

    def test_segments_outside_of_their_recording(self, audio: Path, tmp_path: Path) -> None:
        """By rounding: they end at the bound. By more: they are rejects, also if they begin with the recording."""
        inside = ["u1 r 0.5 1.009", "u2 r 0 1.009", "u3 r -0.009 0.5", "u4 r 0.25 1.01"]
        outside = ["u5 r 0.5 1.015", "u6 r 0 1.015", "u7 r -0.015 0.5", "u8 r nan 1", "u9 r 0 one"]
        folder = self.folder(tmp_path, wav_scp=f"r {audio}/b/y.flac", segments="\n".join(inside + outside))
        done = make(folder, tmp_path / "m.json")
        assert [(line["offset"], line["duration"]) for line in read_lines(tmp_path / "m.json")] == [
            (0.5, 0.5),
            (0.0, 1.0),
            (0.0, 0.5),
            (0.25, 0.75),
        ]
        reasons = ["beyond_audio", "beyond_audio", "bad_offset", "bad_offset", "bad_offset"]
        assert [reject["reject_reason"] for reject in rejects(tmp_path / "m.json")] == reasons
        assert "3 segments lay up to 10 ms outside of their files" in done.out
        assert "1 segment lay up to 10 ms outside of their recordings" in done.out

    def test_a_field_that_is_set_needs_no_line_in_its_table(self, audio: Path, tmp_path: Path) -> None:
        scp = f"u {audio}/a/x.wav\nv {audio}/b/y.flac"
        folder = self.folder(tmp_path, wav_scp=scp, utt2spk="v s2", text="u one\nv two")
        make(folder, tmp_path / "m.json", "--set", "speaker=s1", "--max-rejects", 0)
        found = [(one["text"], one["speaker"]) for one in read_lines(tmp_path / "m.json")]
        assert found == [("one", "s1"), ("two", "s1")]

    def test_relative_paths(self, audio: Path, tmp_path: Path) -> None:
        folder = self.folder(tmp_path, wav_scp="u audio/a/x.wav\nv audio/gone.wav")
        done = prepcli("make-manifest", folder, tmp_path / "m.json", cwd=audio)
        assert f"give --audio-base-dir {tmp_path}" in done.error_line
        done = prepcli("make-manifest", folder, tmp_path / "m.json", "--max-rejects", 9, cwd=tmp_path)
        assert paths(tmp_path / "m.json") == ["audio/a/x.wav"]
        assert "Kaldi's relative paths start from" in rejects(tmp_path / "m.json")[0]["reject_detail"]

    def test_commands_are_run_only_if_asked_for(self, audio: Path, tmp_path: Path) -> None:
        scp = f"u/1 cat {audio}/a/x.wav |\nu_1 cat {audio}/b/x.wav |\nu3 cat gone.wav |\nu4 {audio}/x.ark:17"
        folder = self.folder(tmp_path, wav_scp=scp)
        done = make(folder, tmp_path / "m.json", code=2)
        assert "wav.scp:1 is a command, not a file: cat " in done.error_line
        assert "give --run-commands if you trust this file" in done.error_line
        assert not (tmp_path / "m.json.prepcli").exists()
        make(folder, tmp_path / "m.json", "--run-commands")
        made = paths(tmp_path / "m.json")
        assert len(set(made)) == 2
        assert (tmp_path / made[0]).read_bytes() == (audio / "a/x.wav").read_bytes()
        assert made[1] == "m_audio/u_1.wav"
        found = rejects(tmp_path / "m.json")
        assert "cannot be made: `cat gone.wav` ended with 1" in found[0]["reject_detail"]
        assert f"{audio}/x.ark does not exist" in found[1]["reject_detail"]

    def test_audio_in_archives(self, audio: Path, tmp_path: Path) -> None:
        """Kaldi's own entries are WAV; ESPnet writes FLAC behind `AUDIO` and its length."""
        wav, flac = (audio / "a/x.wav").read_bytes(), (audio / "b/y.flac").read_bytes()
        head = b"u1 " + wav + b"u2 AUDIO\x04" + len(flac).to_bytes(4, "little")
        (tmp_path / "x.ark").write_bytes(head + flac + b"u3 \0BFM features")
        places = (3, 3 + len(wav) + 3, len(head + flac) + 3)
        lines = [f"u{number} {tmp_path}/x.ark:{place}" for number, place in enumerate(places, 1)]
        folder = self.folder(tmp_path, wav_scp="\n".join([*lines, f"u4 {tmp_path}/x.ark:3[0:100]"]))
        make(folder, tmp_path / "m.json")
        assert paths(tmp_path / "m.json") == [f"x.ark::{place}" for place in places[:2]]
        details = [one["reject_detail"] for one in rejects(tmp_path / "m.json")]
        assert "x.ark::" in details[0]
        assert "is not audio" in details[0]
        assert "write it to segments instead" in details[1]
        done = prepcli("manifest-to-tarred", tmp_path / "m.json", tmp_path / "out", "--num-shards", 1)
        assert done.code == 0, done.err
        with tarfile.open(tmp_path / "out/audio_0.tar") as tar:
            stored = [tar.extractfile(one).read() for one in tar]  # type: ignore[union-attr]
        assert stored == [wav, flac]
