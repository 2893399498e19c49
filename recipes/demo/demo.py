"""The demo through the Python API: tar shards, bins, context audio, Lhotse Shar and codec codes of a small corpus.

    python recipes/demo/demo.py                  # results in recipes/demo/work/python
    WORK=/data/demo python recipes/demo/demo.py  # results elsewhere

Each `# %%` starts a cell: an editor such as VS Code or Spyder runs them one by one, and they can be pasted into a
notebook. `run.sh` does the same with the command line. Run it again to continue: finished work is kept.
"""

# %% Where things are. This needs a clone of the repository, with prepcli installed by `scripts/setup.sh`.
import os
import subprocess
import sys
from pathlib import Path

import prepcli

ROOT = Path(prepcli.__file__).parents[1]
CORPUS = ROOT / "tests/data/mini_corpus"
MANIFEST = CORPUS / "manifest.json"
WORK = Path(os.environ.get("WORK") or ROOT / "recipes/demo/work/python")
WORK.mkdir(parents=True, exist_ok=True)

# %% What is in the manifest?
found = prepcli.inspect(MANIFEST)
print(f"{found.path}: {found.records} records of {found.speakers} speakers")

# %% Tar shards for ASR, and a check of every byte of them
tarred = prepcli.manifest_to_tarred(MANIFEST, WORK / "tarred", num_shards=4)
print(tarred)
assert prepcli.verify(WORK / "tarred").problems == []

# %% Duration bins for bucketed training
bins = prepcli.estimate_bins(MANIFEST, num_buckets=5, plot=WORK / "durations.png")
print(f"bucket_duration_bins={bins.bucket_duration_bins}: {bins.padding:.1%} of a batch is padding, ", end="")
print(f"{bins.padding_without_buckets:.1%} without bucketing")

# %% For each record the most similar other utterance of its voice
context = prepcli.extend_context_audio(
    MANIFEST,
    WORK / "context",
    speaker_model="resemblyzer",
    devices="cpu",
    plot=WORK / "contexts.png",
)
print(context)

# %% Cuts, target audio and context audio in Lhotse Shar
shar = prepcli.manifest_to_shar(
    context.outputs["manifest"],
    WORK / "shar",
    audio_base_dir=CORPUS,
    shard_size=16,
)
print(shar)

# %% A codec with random weights, because the repository has no trained one: do not train on its codes.
# It is made once: another codec file would give other codes.
codec = WORK / "random_codec.nemo"
if not codec.exists():
    new_codec = WORK / "new_codec.nemo"
    subprocess.run([sys.executable, ROOT / "recipes/demo/make_codec.py", new_codec], check=True)
    new_codec.rename(codec)

# %% Codec codes of targets and contexts, and a check of the whole set
codes = prepcli.extend_codec_codes(WORK / "shar", str(codec), devices="cpu")
print(codes)
assert prepcli.verify(WORK / "shar").problems == []

# %% What each step made
print(f"{'step':<22}{'records':>8}{'rejects':>9}{'minutes':>9}{'bytes':>12}")
for report in (tarred, context, shar, codes):
    print(
        f"{report.command:<22}{report.records_out:>8}{report.rejects:>9}{report.seconds / 60:>9.2f}"
        f"{report.num_bytes:>12,}"
    )

# %% What to copy into a training config
for name, path in {**tarred.outputs, **shar.outputs, **codes.outputs}.items():
    print(f"{name}: {path}")
