"""`prepcli extend-codec-codes` against the straightforward loop, with the same codec on the same device.

    python benchmarks/codes.py                                # on the processor, 480 synthetic files
    python benchmarks/codes.py --records 96 --shard-size 48 --runs 1    # minutes, not half an hour
    python benchmarks/codes.py --base-channels 48 --records 20000 --devices auto --no-loop    # full size, on a GPU

The loop is what one writes first, and what NeMo's script does: for each shard a DataLoader with one spawned worker,
which loads and resamples through lhotse; batches of 32 in the order of the cuts, padded to the longest, targets and
contexts apart; lhotse's writer after each batch. Both read the same Lhotse Shar of synthetic files, all of one length,
so that the loop pads nothing: with speech, it does. Each context is one of a third of the speaker's files, so contexts
repeat. The codec has random weights (recipes/demo/make_codec.py).

Whole processes in turn, medians, ratios of the pairs of runs, peak memory of the largest process. Then, as prepcli
reports them: time in the codec over the time of encoding, and the codec alone on full batches in memory. On a GPU its
memory and utilisation, as nvidia-smi reports them twice per second.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from shar import write_manifests
from side_by_side import PREPCLI, Contestant, clear, in_turn, print_table
from tarred import make_files

LOOP = """
import sys
from pathlib import Path
import torch
from lhotse import CutSet
from lhotse.array import Array, TemporalArray
from lhotse.shar.writers import ArrayTarWriter
from nemo.collections.tts.models import AudioCodecModel

FIELDS = ("target_audio", "context_audio")

class Shard(torch.utils.data.IterableDataset):
    def __init__(self, fields, rate):
        self.fields, self.rate = fields, rate
    def __iter__(self):
        for cut in CutSet.from_shar(fields=self.fields):
            audio = [getattr(cut, field).resample(self.rate).load_audio()[0] for field in FIELDS]
            yield cut.id, [torch.from_numpy(one) for one in audio]

def collate(items):
    ids, audio = zip(*items)
    padded = [torch.nn.utils.rnn.pad_sequence(one, batch_first=True) for one in zip(*audio)]
    return ids, padded, [torch.tensor([len(x) for x in one]) for one in zip(*audio)]

def main():
    shar, out, nemo, device = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    model = AudioCodecModel.restore_from(nemo, map_location="cpu").to(device).eval()
    shift = model.samples_per_frame / model.sample_rate
    for cuts in sorted((shar / "cuts").iterdir()):
        number = cuts.name.split(".")[1]
        fields = {field: [str(shar / field / f"recording.{number}.tar")] for field in FIELDS}
        loader = torch.utils.data.DataLoader(
            Shard({"cuts": [str(cuts)], **fields}, model.sample_rate), batch_size=32, num_workers=1,
            multiprocessing_context="spawn", collate_fn=collate,
        )
        writers = []
        for field in FIELDS:
            folder = out / field.replace("audio", "codes")
            folder.mkdir(parents=True, exist_ok=True)
            writers.append(ArrayTarWriter(str(folder / f"codes.{number}.tar"), shard_size=None).__enter__())
        for ids, audio, lengths in loader:
            for writer, one, length in zip(writers, audio, lengths):
                with torch.inference_mode():
                    codes, frames = model.encode(audio=one.to(device), audio_len=length.to(device))
                for id, row, count in zip(ids, codes.cpu().numpy().astype("int16"), frames.tolist()):
                    value = row[:, :count]
                    writer.write(id, value, TemporalArray(Array("shar", "", "", list(value.shape)), -1, shift, 0))
        for writer in writers:
            writer.close()

if __name__ == "__main__":
    main()
"""

ALONE = """
import os, sys, time
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
from functools import partial
import torch
from prepcli.models.codecs import load_codec
from prepcli.models.running import ModelRunner
codec, device, seconds = load_codec(sys.argv[1]), sys.argv[2], float(sys.argv[3])
codec.to(device)
rows, length = max(1, int(seconds / 6)), 6 * codec.sampling_rate // codec.samples_per_frame * codec.samples_per_frame
audio = torch.randn(rows, length, device=device) / 10
lengths = torch.full((rows,), length, device=device)
def run(times):
    begun = time.perf_counter()
    with ModelRunner(device, codec.rows_on_cpu) as runner:
        running = [runner.run(partial(codec.encode, precision=sys.argv[4]), audio, lengths) for _ in range(times)]
        running[-1].result().tensors[0].cpu()
    return time.perf_counter() - begun
run(1)
times = max(3, int(10 / run(1)))
print(rows * length / codec.sampling_rate * times / run(times))
if device != "cpu":
    print(torch.cuda.max_memory_allocated() / 1e9)
"""


def make_shar(folder: Path, count: int, shard_size: int) -> Path:
    """A Shar set of `count` records with contexts."""
    manifest = write_manifests(folder, make_files(folder, count))["flac"]
    out = folder / "shar"
    arguments = [str(manifest), str(out), "--audio-base-dir", str(folder), "--shard-size", str(shard_size)]
    subprocess.run([*PREPCLI, "manifest-to-shar", *arguments], check=True, stdout=subprocess.DEVNULL)
    return out


def print_work(shar: Path) -> None:
    """How much audio each of the two gives to the codec; it does not depend on the machine."""
    from tests.support.shar_sets import FIELDS, recordings

    padded = true = 0.0
    distinct: dict[bytes, float] = {}
    for field in FIELDS:
        for tar in sorted((shar / field).iterdir()):
            stored = recordings(tar)
            seconds = [one.manifest["duration"] for one in stored]
            distinct |= {one.data: one.manifest["duration"] for one in stored}
            true += sum(seconds)
            padded += sum(
                len(rows) * max(rows) for rows in (seconds[at : at + 32] for at in range(0, len(seconds), 32))
            )
    once = sum(distinct.values())
    print(
        f"  through the codec: the loop {padded / 60:.1f} min ({1 - true / padded:.0%} padding), "
        f"prepcli {once / 60:.1f} min ({1 - once / true:.0%} of {true / 60:.1f} min are repeats): {padded / once:.1f} x"
    )


class Gpu(threading.Thread):
    """Looks at the first GPU twice a second: utilisation (%) and memory (MB)."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[float, float]] = []
        self._over = threading.Event()

    def run(self) -> None:
        query = ["nvidia-smi", "-i", "0", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits"]
        while not self._over.wait(0.5):
            done = subprocess.run(query, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                use, memory = map(float, done.stdout.split(","))
                self.seen.append((use, memory))

    def stop(self) -> None:
        self._over.set()
        self.join()
        busy = [use for use, _ in self.seen if use > 0]
        if busy:
            peak = max(memory for _, memory in self.seen)
            print(f"  GPU: {sum(busy) / len(busy):.0f} % used while it was used at all, {peak:,.0f} MB at most")


def cpu_seconds(contestant: Contestant) -> float:
    """Run it; the processor time of all its processes, which depends little on other work on the machine."""

    def taken() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = taken()
    contestant.run()
    return taken() - before


def compare(ours: Path, theirs: Path) -> None:
    """How many codes the loop has otherwise: those at the ends of what it padded."""
    import numpy as np

    from tests.support.codes_sets import read_codes

    count = different = 0
    for tar in sorted(ours.rglob("*.tar")):
        for one, other in zip(read_codes(tar), read_codes(theirs / tar.relative_to(ours)), strict=True):
            assert one.codes is not None and other.codes is not None
            if (one.cut_id, one.codes.shape) != (other.cut_id, other.codes.shape):
                raise SystemExit(f"{tar}: {one.cut_id} {one.codes.shape} against {other.cut_id} {other.codes.shape}")
            different += int(np.count_nonzero(one.codes != other.codes))
            count += one.codes.size
    print(f"  same ids and shapes; {different / count:.2%} of {count:,} codes differ, for the loop pads")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=480)
    parser.add_argument("--shard-size", type=int, default=240)
    parser.add_argument("--base-channels", type=int, default=4, help="width of the codec's encoder; a real one has 48")
    parser.add_argument("--batch-duration", type=float, default=120.0)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--devices", default="cpu", choices=["cpu", "auto", "1"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-loop", action="store_true", help="prepcli and the codec alone")
    options = parser.parse_args()
    # On a busy machine threads that wait in busy loops would slow the loop down; prepcli avoids this by itself.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    device = "cpu" if options.devices == "cpu" else "cuda:0"
    with tempfile.TemporaryDirectory(prefix="prepcli-bench-") as name:
        folder = Path(name)
        shar = make_shar(folder, options.records, options.shard_size)
        codec = folder / "codec.nemo"
        make = Path(__file__).parents[1] / "recipes/demo/make_codec.py"
        channels = str(options.base_channels)
        subprocess.run(
            [sys.executable, str(make), str(codec), "--base-channels", channels], check=True, stdout=subprocess.DEVNULL
        )
        (folder / "loop.py").write_text(LOOP)
        out, theirs = folder / "out", folder / "loop"

        arguments = ["--codec-model", str(codec), "--codec-name", "x", "--output-dir", str(out), "--json"]
        arguments += ["--devices", options.devices, "--precision", options.precision]
        arguments += ["--batch-duration", str(options.batch_duration)]
        ours = Contestant(
            "prepcli",
            [*PREPCLI, "extend-codec-codes", str(shar), *arguments],
            lambda: clear(out),
        )
        loop = Contestant(
            "the loop",
            [sys.executable, str(folder / "loop.py"), str(shar), str(theirs), str(codec), device],
            lambda: clear(theirs),
        )
        what = f"{options.records} synthetic files of 2.8 s at 8 kHz, {options.shard_size} a shard"
        print(f"{what}; codec of {channels} channels on {device}")
        print_work(shar)
        if options.no_loop:
            gpu = Gpu()
            gpu.start()
            in_turn([ours], options.runs)
            gpu.stop()
            print_table([ours], ours)
        else:
            if options.runs > 1:
                in_turn([loop, ours], options.runs)
            else:  # no run that does not count: minutes, on a processor
                cpu = [cpu_seconds(one) for one in (loop, ours)]
                print(f"  processor seconds: the loop {cpu[0]:.1f}, prepcli {cpu[1]:.1f}: {cpu[0] / cpu[1]:.2f} x")
            print_table([ours, loop], ours)
            compare(out / "codes_x", theirs)
        details = json.loads(ours.output)["details"]
        figures = {name: value for name, value in details.items() if not isinstance(value, str) or "/" not in value}
        print(f"  as prepcli reports: {json.dumps(figures)}")
        command = [sys.executable, "-c", ALONE, str(codec), device, str(options.batch_duration), options.precision]
        alone = [float(x) for x in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()]
        memory = f", {alone[1]:.1f} GB" if len(alone) > 1 else ""
        share = details["real_time_factor"] / alone[0]
        print(
            f"  the codec alone, full batches of 6 s in memory: {alone[0]:,.0f} x real time{memory}; "
            f"prepcli from tars to tars {details['real_time_factor']:,.0f} x, {share:.0%} of it"
        )


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"(in all {time.perf_counter() - started:.0f} s)")
