"""Wrong command lines: one line that says what is wrong and which --help shows the right use."""

from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS
from tests.support.running import prepcli


def test_unknown_option_is_wrong_use() -> None:
    done = prepcli("manifest-to-tarred", "m.json", "out", "--num-shard", 3)
    assert done.code == 2
    assert "--num-shard" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("manifest-to-tarred --manifest_path m.json", "--manifest_path: MANIFEST is the first argument, without an"),
        ("manifest-to-tarred m.json --target_dir=out", "--target_dir: OUT is the second argument, without an option"),
        ("extend-context-audio --manifest-filepath x", "MANIFEST is the first argument"),
        ("manifest-to-tarred m.json out --min-durations 3", "did you mean --min-duration?"),
        ("manifest-to-tarred m.json out --workers 3", "did you mean --num-workers?"),
        ("estimate-bins-2d m.json -t a b --num_buckets 3", "did you mean --buckets?"),
        ("extend-codec-codes --cuts-dir x", "SHAR_DIR or MANIFEST is the first argument, without an option"),
        ("extend-codec-codes x --codec_frame_rate 21", "leave it out: the model has its frame rate"),
        ("extend-codec-codes x --codec-model-path m.nemo", "did you mean --codec-model?"),
        ("extend-codec-codes x --batch-size 8", "did you mean --batch-duration? It is in seconds of audio"),
        ("extend-codec-codes x --num-nodes 2", "run it on every node with srun or torchrun"),
        ("estimate-bins m.json --num-nodes 2", "leave it out: it starts no other nodes"),
        ("manifest-to-shar m.json out --processing-chunk-size 8", "did you mean --shard-size?"),
        ("extend-codec-codes x --codec-model-name 21fps", "did you mean --codec-name?"),
        ("extend-context-audio m.json out --dataset-name libritts", "did you mean --group-by?"),
        ("extend-context-audio m.json out --flush-threshold-items 8", "leave it out: memory does not grow"),
        ("extend-context-audio m.json out --wandb-name x", "leave it out: prepcli status shows how far a run is"),
        (
            "manifest-to-mels m.json out --mel-files l.txt",
            "leave it out: the lists of mels are written to",
        ),
        ("manifest-to-mels --wav-files l.txt", "prepcli make-manifest LIST.txt MANIFEST --format filelist"),
        ("download fisher --transcript_root x", "did you mean --ldc-root?"),
        ("download fisher --data_root x", "--ldc-root is your copy of the corpus, and --dest-root the folder to"),
        ("split m.json out --train 0.9", "give each part with its amount, such as --part train=0.1"),
        ("manifest-to-mels m.json out --text-cleaners x", "leave it out: texts stay as they are"),
        ("manifest-to-mels m.json out --max-wav-value 1", "leave it out: samples are scaled by what their files say"),
        ("extend-codec-codes --manifests m.json", "SHAR_DIR or MANIFEST is the first argument"),
        ("extend-codec-codes x --audio_base_dirs a", "did you mean --audio-base-dir?"),
        ("extend-codec-codes x --save_dir a", "did you mean --output-dir?"),
        ("extend-codec-codes x --sample_rate 22050", "leave it out: the codec has its rate"),
        ("extend-codec-codes x --dataset_names a", "leave it out: the paths of codes are those of the audio"),
        ("download aishell2 --dest_folder x", "did you mean --data-root?"),
        ("manifest-to-tarred --concat_manifest_paths a b", "the set that they are added to with --concat-to"),
        ("manifest-to-tarred m.json out --shards 4", "no option --shards: did you mean --num-shards?"),
        ("manifest-to-wenet m.json out --num_utts_per_shard 9", "did you mean --shard-size?"),
        ("manifest-to-wenet m.json out --num_threads 4", "did you mean --num-workers?"),
        ("manifest-to-wenet m.json out --resample 16000", "did you mean --target-sample-rate?"),
        ("manifest-to-tarred m.json out --metadata x.yaml", "leave it out: metadata.yaml is always written"),
        ("manifest-to-tarred m.json out --use_lhotse", "leave it out: it is an option of the training config"),
        ("estimate-bins --input m.json", "INPUT is the first argument"),
        ("estimate-batch-sizes --pretrained-name x", "did you mean --model?"),
        ("estimate-batch-sizes --module-name a.B -c x", "did you mean --model-class?"),
        ("estimate-batch-sizes -m a.B --config-path x", "did you mean --config?"),
    ],
)
def test_options_of_other_programs(arguments: str, words: str) -> None:
    done = prepcli(*arguments.split())
    assert (done.code, done.out) == (2, "")
    assert words in done.error_line


@pytest.mark.parametrize("options", ["--num_shards 3 --no_shard_manifests", "--num_shards=3 --no_Shard-manifests"])
def test_names_of_options_with_underscores(options: str, tmp_path: Path) -> None:
    """As scripts of NeMo spell them."""
    done = prepcli("manifest-to-tarred", MINI_CORPUS / "manifest.json", tmp_path / "out", *options.split())
    assert done.code == 0, done.err
    assert len([*(tmp_path / "out").glob("*.tar")]) == 3
    assert not (tmp_path / "out/sharded_manifests").exists()


def test_what_looks_like_an_option_and_is_not(tmp_path: Path) -> None:
    """The value of an option, and what follows two dashes, is taken as it is."""
    done = prepcli("estimate-bins", "x.json", "--text-field", "--num_shards")
    assert "manifest not found: x.json" in done.error_line
    done = prepcli("estimate-bins", "--", "--num_shards", cwd=tmp_path)
    assert "manifest not found: --num_shards" in done.error_line
    done = prepcli("estimate-bins", "x.json", "--entirely-unknown")
    assert done.code == 2
    assert "no such option: --entirely-unknown" in done.error_line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("manifest-to-tarred", "missing argument 'MANIFEST' (see prepcli manifest-to-tarred --help)"),
        ("download an4", "missing option '--data-root' (see prepcli download an4 --help)"),
        ("download an4 --data-root", "option '--data-root' requires an argument (see prepcli download an4 --help)"),
        ("download an5", "there is no corpus an5: did you mean an4? prepcli download --list has all"),
        ("download LJ_Speech", "there is no corpus LJ_Speech: did you mean ljspeech? prepcli download --list has all"),
        ("download xyzzy", "there is no corpus xyzzy: prepcli download --list has all"),
        ("download --json", "--json comes after the corpus, as in prepcli download an4 --json, or with --list"),
        ("frobnicate", "no such command 'frobnicate' (see prepcli --help)"),
        (
            "tarred m.json",
            "no such command 'tarred': did you mean manifest-to-tarred or conversations-to-tarred? "
            "(see prepcli --help)",
        ),
        (
            "context",
            "no such command 'context': did you mean extend-context-audio or extend-text-context? (see prepcli --help)",
        ),
        ("help", "no such command 'help': write prepcli --help"),
        ("help split", "no such command 'help': write prepcli split --help"),
        ("--frobnicate", "no such option: --frobnicate (see prepcli --help)"),
        (
            "manifest-to-tarred m out --num-shards x",
            "invalid value for '--num-shards': 'x' is not a whole number (see prepcli manifest-to-tarred --help)",
        ),
        (
            "manifest-to-tarred a.json b.json out",
            "unexpected extra argument(s) (out): the command takes MANIFEST and OUT; several manifests are one "
            "argument, a.json,b.json (see prepcli manifest-to-tarred --help)",
        ),
        (
            "inspect a.json b.json",
            "unexpected extra argument(s) (b.json): the command takes PATH; several manifests are one argument, "
            "a.json,b.json (see prepcli inspect --help)",
        ),
        (
            "estimate-bins-2d a.json b.json -t x",
            "unexpected extra argument(s) (b.json): the command takes INPUT; several manifests are one argument, "
            "a.json,b.json (see prepcli estimate-bins-2d --help)",
        ),
        (
            "make-manifest a/ b/ m.json",
            "unexpected extra argument(s) (m.json): the command takes SOURCE and OUT.json; for several, give the "
            "folder above them, or a file that lists paths (see prepcli make-manifest --help)",
        ),
        (
            "verify a b",
            "unexpected extra argument(s) (b): the command takes OUT; give one at a time (see prepcli verify --help)",
        ),
        (
            "manifest-to-shar m out --shard-size x",
            "invalid value for '--shard-size': 'x' is not a whole number (see prepcli manifest-to-shar --help)",
        ),
        (
            "blend a=m out --temperature x",
            "invalid value for '--temperature': 'x' is not a number (see prepcli blend --help)",
        ),
        (
            "filter m out --max-rejects 5%",
            "invalid value for '--max-rejects': '5%' is not a number; a share is a number below 1, such as 0.05 (see "
            "prepcli filter --help)",
        ),
        ("status out --watch --every nan", "--every must be 0.1 or more, not nan"),
        ("download an4 --data-root=", "--data-root is empty: is a shell variable unset?"),
        ("status --watch x y --no", "no such option: --no (similar: --json) (see prepcli status --help)"),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: str, message: str) -> None:
    done = prepcli(*arguments.split())
    assert (done.code, done.out) == (2, "")
    assert done.error_line == f"prepcli: {message}"


@pytest.mark.parametrize("command", ["manifest-to-tarred", "manifest-to-shar", "extend-context-audio"])
def test_manifest_and_out_swapped(tmp_path: Path, command: str) -> None:
    manifest = MINI_CORPUS / "manifest.json"
    for folder, why in ((tmp_path, "a directory"), (tmp_path / "new", "not there")):
        done = prepcli(command, folder, manifest)
        assert (done.code, done.out) == (2, "")
        assert f"MANIFEST {folder} is {why}, and OUT {manifest} is a file: did you swap MANIFEST and OUT?" in done.err
    assert list(tmp_path.iterdir()) == []
    done = prepcli(command, tmp_path / "none.json", manifest)
    assert "manifest not found" in done.error_line
