import re
import sys
from pathlib import Path

import numpy as np
import pytest

from prepcli.planning.cut_points import duration_bins
from tests.commands.estimate_bins.asking import bins_1d
from tests.conftest import MINI_CORPUS, write_lines
from tests.support.running import prepcli, prepcli_without


@pytest.fixture
def durations() -> list[float]:
    return [float(d) for d in np.random.default_rng(0).lognormal(1.8, 0.6, 500).round(3)]


@pytest.fixture
def manifest(awkward: Path, durations: list[float]) -> Path:
    return write_lines(
        awkward / "m.json", [{"audio_filepath": f"{i}.wav", "duration": d} for i, d in enumerate(durations)]
    )


def pasted(durations: list[float], num_buckets: int) -> str:
    return f"[{','.join(str(round(edge, 5)) for edge in duration_bins(durations, num_buckets))}]"


def test_the_lines_to_paste(manifest: Path, durations: list[float]) -> None:
    done = prepcli("estimate-bins", manifest, "-b", 8)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:5] == [
        "Used 500 examples for the estimation.",
        "Use the following options in your config:",
        "\tnum_buckets=8",
        f"\tbucket_duration_bins={pasted(durations, 8)}",
        f"\tmax_duration={max(durations)}",
    ]
    assert re.search(r"^Padding in batches of 360 s: \d+\.\d% with these bins, \d+\.\d% without", done.out, re.M)
    table = [line.split() for line in lines[lines.index("") :] if re.match(r" +\d+ ", line)]
    assert [int(row[0]) for row in table] == list(range(8))
    assert sum(int(row[3]) for row in table) == 500


def test_the_number_of_buckets_is_that_of_the_bins(tmp_path: Path) -> None:
    manifest = write_lines(tmp_path / "m.json", [{"audio_filepath": "a", "duration": 1.0 + n / 10} for n in range(30)])
    done = prepcli("estimate-bins", manifest, "-b", 28, "--write-config", tmp_path / "c.yaml")
    assert done.out.startswith("Note: 28 buckets were asked for, the bins make 21, of which 20 hold examples: ")
    assert "\tnum_buckets=21\n" in done.out
    assert "num_buckets: 21\n" in (tmp_path / "c.yaml").read_text()


def test_quiet_is_the_bins_and_nothing_else(manifest: Path, durations: list[float]) -> None:
    done = prepcli("estimate-bins", manifest, "--quiet")
    assert (done.code, done.out, done.err) == (0, pasted(durations, 30) + "\n", "")


def test_json_is_one_object_with_the_same_numbers(manifest: Path, durations: list[float]) -> None:
    done = prepcli("estimate-bins", manifest, "-b", 8, "--json", "--num-workers", 2)
    assert done.code == 0
    document = done.json
    assert document["bucket_duration_bins"] == [round(edge, 5) for edge in duration_bins(durations, 8)]
    assert (document["num_buckets"], document["num_examples"]) == (8, 500)
    assert document["hours"] == pytest.approx(sum(durations) / 3600)
    assert 0 < document["padding"] < document["padding_without_buckets"] < 1
    assert "durations" not in document


def test_limits_and_examples(manifest: Path, durations: list[float]) -> None:
    used = [d for d in durations if 3 <= d <= 9]
    done = prepcli("estimate-bins", manifest, "-b", 5, "-l", 3, "-u", 9)
    left = 500 - len(used)
    assert done.out.startswith(
        f"Note: we discarded {left}/500 ({left / 500:.2%}) utterances due to min/max duration filtering.\n"
        f"Used {len(used)} examples"
    )
    assert f"bucket_duration_bins={pasted(used, 5)}\n" in done.out
    done = prepcli("estimate-bins", manifest, "-b", 5, "-n", 100, "-q")
    assert done.out == pasted(durations[:100], 5) + "\n"


def test_options_of_the_2d_command_are_taken(manifest: Path) -> None:
    assert prepcli("estimate-bins", manifest, "-q", "--text-field", "answer", "--lang-field", "l").code == 0


def test_unusable_lines_are_counted_and_the_first_is_named(manifest: Path) -> None:
    with manifest.open("a") as file:
        file.write('\n{"audio_filepath": "a", "duration": "3"}\nbroken\n{"_skipme": true}\n')
    done = prepcli("estimate-bins", manifest, "-b", 8)
    assert done.code == 0
    assert "Note: we skipped 1 line with a true _skipme.\n" in done.out
    first = 'm.json:502: duration is "3", a string;'
    assert "Note: 2 lines cannot be used; the first is" in done.out and first in done.out
    assert done.err == ""
    assert first in prepcli("estimate-bins", manifest, "-b", 8, "-q").err
    document = prepcli("estimate-bins", manifest, "--json").json
    assert (document["num_rejected"], document["num_skipped"]) == (2, 1)


@pytest.mark.parametrize(("allowed", "code"), [(0.05, 0), (0.003, 3), (2, 0), (1, 3), (0, 3)])
def test_more_rejects_than_allowed(manifest: Path, allowed: float, code: int) -> None:
    with manifest.open("a") as file:
        file.write("broken\nbroken\n")
    done = prepcli("estimate-bins", manifest, "-q", "--max-rejects", allowed)
    assert done.code == code
    assert done.out.startswith("[")  # the answer all the same
    assert ("2 of 502 records cannot be used, more than --max-rejects allows" in done.err) == (code == 3)


def test_the_config_keeps_a_limit_unless_another_is_given(manifest: Path) -> None:
    config = manifest.parent / "config.yaml"
    config.write_text("train_ds:\n  max_duration: 20   # mine\n  use_bucketing: true\n")
    done = prepcli("estimate-bins", manifest, "-b", 8, "-q", "--write-config", config)
    assert done.code == 0
    assert "train_ds.num_buckets: new, 8\n" in done.err
    assert f"{config}: its limits hold for the bins: max_duration 20\n" in done.err
    assert done.out == prepcli("estimate-bins", manifest, "-b", 8, "-q", "-u", 20).out
    assert done.out != prepcli("estimate-bins", manifest, "-b", 8, "-q").out
    assert f"prepcli: wrote {config}: 2 keys changed in train_ds\n" in done.err
    assert "  max_duration: 20   # mine\n" in config.read_text()
    done = prepcli("estimate-bins", manifest, "-b", 8, "-q", "-u", 25, "--write-config", config)
    assert "train_ds.max_duration: 20 -> " in done.err
    done = prepcli("estimate-bins", manifest, "-b", 8, "-q", "-u", 25, "--write-config", config)
    assert done.err == f"prepcli: {config} has these options already; it was not changed\n"
    config.write_text("name: x\n")
    done = prepcli("estimate-bins", manifest, "--write-config", config)
    assert (done.code, config.read_text()) == (2, "name: x\n")
    assert "it is not clear where the options belong" in done.error_line


def test_the_plot(manifest: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = manifest.parent / "bins.png"
    done = prepcli("estimate-bins", manifest, "-b", 8, "--plot", picture)
    assert (done.code, done.err) == (0, "")
    assert picture.read_bytes().startswith(b"\x89PNG")
    import matplotlib.image

    pixels = matplotlib.image.imread(picture)[..., :3]
    red = (pixels[..., 0] > 0.7) & (pixels[..., 1] < 0.5) & (pixels[..., 2] < 0.5)
    # Seven edges, each a line from the bottom of the axes to the top.
    tall = red.sum(axis=0) > pixels.shape[0] // 2
    assert np.count_nonzero(tall[1:] & ~tall[:-1]) == 7


def test_the_plot_without_matplotlib(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prepcli.commands.estimate_bins.plots import plot_bins
    from prepcli.errors import UsageError

    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(UsageError, match=r"pip install 'prepcli\[plot\]'"):
        plot_bins(bins_1d(manifest, num_buckets=8), Path("x.png"))


def test_neither_torch_nor_lhotse_nor_nemo_is_imported(manifest: Path) -> None:
    heavy = ("torch", "lhotse", "nemo", "matplotlib", "soundfile", "yaml")
    done = prepcli_without(heavy, "estimate-bins", manifest, "-q")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("[")


@pytest.mark.parametrize("options", [("-l", 5, "-u", 1), ("-l", "nan"), ("-u", "nan")])
def test_limits_that_leave_nothing_are_named(options: tuple[object, ...]) -> None:
    done = prepcli("estimate-bins", MINI_CORPUS / "manifest.json", *options)
    assert done.code == 2
    assert "--min-duration" in done.err
    assert "--max-duration" in done.err
