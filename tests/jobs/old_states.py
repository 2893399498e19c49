"""Make the archive of what a version of prepcli leaves on a disk: `python -m tests.jobs.old_states CHECKOUT NAME`.

The archive holds a folder `corpus` with six records, and for each job of `JOBS` its output; of those that write folders
also as rank 0 of two leaves it (`half_*`). All paths in the states begin with `ROOT`.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
ROOT = Path("/tmp/prepcli_old_states")
JOBS = {
    "tarred": ("manifest-to-tarred", "corpus/manifest.json", "{}", "--num-shards", "2"),
    "shar": ("manifest-to-shar", "corpus/manifest.json", "{}", "--shard-size", "3"),
    "parquet": ("manifest-to-parquet", "corpus/manifest.json", "{}", "--shard-size", "3"),
    "durations.json": ("fix-durations", "corpus/manifest.json", "{}"),
    "texts.json": ("prepare-texts", "corpus/manifest.json", "{}"),
    "made.json": ("make-manifest", "corpus", "{}"),
}


def make(checkout: Path, name: str) -> None:
    """Write `NAME.tar.gz` to the folder of old states."""
    shutil.rmtree(ROOT, ignore_errors=True)
    corpus, source = ROOT / "corpus", DATA / "short_corpus"
    records = [json.loads(line) for line in (source / "manifest.json").read_text().splitlines()[::8]]
    for record in records:
        (corpus / record["audio_filepath"]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / record["audio_filepath"], corpus / record["audio_filepath"])
    (corpus / "manifest.json").write_text("".join(json.dumps(record) + "\n" for record in records))
    environ = os.environ | {"PYTHONPATH": str(checkout)}
    for out, words in JOBS.items():
        for prefix, more in (("", []), ("half_", ["--rank", "0", "--world-size", "2"])):
            if prefix and out.endswith(".json"):
                continue
            command = [sys.executable, "-m", "prepcli", *(word.format(prefix + out) for word in words), *more]
            done = subprocess.run([*command, "--num-workers", "1"], cwd=ROOT, env=environ, check=False)
            print(*command[2:], "->", done.returncode)
    with tarfile.open(DATA / f"old_states/{name}.tar.gz", "w:gz") as tar:
        for path in sorted(ROOT.rglob("*")):
            tar.add(path, path.relative_to(ROOT), recursive=False)


if __name__ == "__main__":
    make(Path(sys.argv[1]), sys.argv[2])
