"""Calls that are wrong: each ends with exit code 2 and one line that says what is wrong, and touches nothing.

What needs more than the few files of the fixture is tested with its command: sets that are damaged or in the way,
stores, models, the words of `tests/cli`.
"""

import gzip
import os
import shlex
from pathlib import Path

import pytest

from tests.conftest import SHORT_CORPUS, write_lines
from tests.support.audio_files import write_audio
from tests.support.conversations import write_conversations
from tests.support.running import prepcli
from tests.support.tars import write_tar
from tests.support.tools import need_package

CALLS: dict[str, dict[str, str]] = {
    "manifest-to-tarred": {
        "nowhere.json OUT --num-shards 1": "manifest not found: nowhere.json",
        "CORPUS OUT --num-shards 1": "is not a data set",
        "MINI --num-shards 1": "OUT is missing",
        "MINI OUT": "give one of --num-shards, --shard-size and --shard-hours",
        "MINI OUT --num-shards 2 --shard-size 9": "give one of",
        "MINI OUT --num-shards 49": "48 usable records cannot fill 49 shards; lower --num-shards",
        "MINI OUT --num-shards 0": "0 is not in the range x>=1",
        "MINI OUT --shard-hours nan": "--shard-hours must be above 0, not nan",
        "MINI OUT --num-shards 1 --max-duration -1": "--max-duration must be above 0, not -1.0",
        "MINI OUT --num-shards 1 --min-duration nan": "--min-duration must be 0 or more, not nan",
        "MINI OUT --num-shards 1 --dynamic-buckets-num 1": "1 is not in the range x>=2",
        "MINI s3:// --num-shards 1": "OUT: s3:// does not name a bucket",
        "MINI OUT --num-shards 1 --min-duration 5 --max-duration 2": "--min-duration 5.0 leaves nothing below",
        "MINI OUT --num-shards 1 --min-duration 99": "left by --min-duration 99",
        "MINI OUT --shard-hours 1 --remainder drop": "--remainder drop",
        "MINI OUT --num-shards 5 --remainder drop --keep-files-together": "exclude each other",
        "MINI OUT --num-shards 1 --buckets-num 3": "--max-duration",
        "MINI 'OUT(1)' --num-shards 1": "NeMo takes '(' in a path for a brace expression",
        "MINI audio_16.tars/x --num-shards 1": "read a shard's number off the folder",
        "MINI --concat-to OUT --num-shards 1": "is not a directory with a tarred",
        "MINI OUT --num-shards 1 --target-sample-rate 16": "is not a sampling rate in Hz",
        "MINI OUT --num-shards 1 --channel left": "--channel left must be mix, or the number of a channel",
        "MINI OUT --num-shards 1 --shuffle-seed 2": "--shuffle-seed has no effect without --shuffle: give both",
        "MINI OUT --num-shards 1 --only-manifests --channel 0": "--channel has no effect with --only-manifests",
        "MINI OUT --num-shards 1 --max-rejects 1.5": "a count, not 1.5",
        "MINI OUT --num-shards 1 --max-rejects -1": "--max-rejects takes",
        "MINI OUT --num-shards 1 --rank 1": "--rank needs --world-size",
    },
    "manifest-to-shar": {
        "nowhere.json OUT": "manifest not found: nowhere.json",
        "MINI OUT --target-sample-rate 16": "is not a sampling rate in Hz",
        "MINI 'OUT(1)'": "NeMo takes '(' in a path for a brace expression",
        "MINI OUT --channel=-1": "--channel -1 must be mix",
        "MINI OUT --audio-format opus --target-sample-rate 8000": "48000 Hz",
    },
    "extend-context-audio": {
        "nowhere.json OUT --speaker-model resemblyzer": "manifest not found: nowhere.json",
        "MINI OUT --speaker-model no.nemo": "--speaker-model no.nemo: there is no such file",
        "MINI OUT --speaker-model .": "there is no such file",
        "MINI OUT --speaker-model text.nemo": "text.nemo is not a .nemo file",
        "MINI OUT --speaker-model empty.nemo": "it does not contain model_config.yaml",
        "MINI OUT --speaker-model asr.nemo": "of the class EncDecCTCModel; the class EncDecSpeakerLabelModel is needed",
        "MINI OUT --speaker-model resemblyzer --group-by voice": "--group-by voice is not known",
        "MINI OUT --speaker-model resemblyzer --group-by 'regex:speaker:('": "is not a regular expression",
        "MINI OUT --speaker-model resemblyzer --context-min-ssim 60": "--context-min-ssim must be 1 or less, not 60.0",
        "MINI OUT --speaker-model resemblyzer --context-min-duration -1": "-1.0 is not in the range x>=0",
        "MINI OUT --speaker-model resemblyzer --batch-duration 0": "--batch-duration must be above 0, not 0.0",
        "MINI OUT --speaker-model resemblyzer --devices 99": "GPUs that can be used",
        "MINI OUT --speaker-model resemblyzer --devices tpu": "auto, cpu or a number of GPUs, not tpu",
    },
    "estimate-batch-sizes": {
        "-b [1.0]": "give --model",
        "TOY --model a.nemo -b [1.0]": "give --model",
        "-c toy.yaml -b [1.0]": "--config needs --model-class",
        "TOY -b [1.0] --buckets-from toy.yaml": "give one of --buckets and --buckets-from",
        "--model no.nemo -b [1.0]": "--model no.nemo: there is no such file",
        "--model weights.ckpt -b [1.0]": "--model weights.ckpt cannot be fetched",
        "TOY -b [1.0] --device cpu": "give its memory, --gpu-memory 80GiB",
        "TOY -b [1.0] --gpu-memory '80 apples'": "a size such as 80GiB",
        "TOY -b [1.0] --device tpu": "--device takes cpu, cuda or cuda:N",
        "TOY -b [1.0] -f 1.1": "--memory-fraction must be",
        "TOY -b [1.0] -t 1": "--threshold must be 0.99 or less, not 1.0",
        "TOY -b [1.0] -r 0": "--ratio must be",
        "TOY -b [2.0,1.0]": "the bins must ascend",
        "TOY --buckets-from toy.yaml": "no bucket_duration_bins",
        "-m a.B -c text.txt -b [1.0]": "--config text.txt: it is not the YAML of a training",
        "TOY -b [1.0] --max-rejects 3": "no such option: --max-rejects",
        "TOY -b [1.0] --plot p.docx": "--plot p.docx: the name must end in",
        "TOY -b [1.0] --plot few.png": "--plot few.png: a file that is not such a plot is there",
        "TOY -b [1.0] --plot p.png --write-config p.png": "--write-config p.png and --plot p.png are one file",
    },
    "extend-codec-codes": {
        "CODES --codec-name a/b": "letters, digits, dots, dashes and underscores",
        "CODES --batch-duration 0": "--batch-duration must be above 0, not 0.0",
        "CODES --pool-duration -1": "--pool-duration must be above 0, not -1.0",
        "CODES --output-form shar": "--output-form shar adds codes to a Shar set: make one first",
        "CODES --output-form tars": "is not one of",
        "CODES --shard-size 5": "--shard-size has no effect without --output-form",
        "CODES --output-form files --shard-size 5": "--shard-size 5 is for --output-form omnivoice; leave it out",
        "CODES --output-form omnivoice --shard-size 0": "0 is not in the range x>=1",
        "CODES --output-form omnivoice --ref-audio a/x.wav": "--ref-audio a/x.wav is for --output-form qwen3-tts",
        "CODES --output-form qwen3-tts --ref-audio none.wav": "none.wav",
        "CODES --output-form omnivoice --partial": "--partial is for a Shar set",
        "CODES --output-form qwen3-tts": "no record has the field ref_audio, the audio of the voice: give --ref-audio",
        "CODES --peak 2": "--peak must be 1 or less, not 2.0",
        "MINI --codec-model x --output-form omnivoice": "a set is written: give --output-dir OUT",
        "MINI --codec-model x --output-form omnivoice --output-dir s3://sets/x": "omnivoice reads the codes only from",
        "MINI --codec-model snack:x --output-dir OUT": "no installed package has the codec snack (an entry point of",
    },
    "manifest-to-mels": {
        "MINI OUT --win-length 2048": "--win-length 2048 must not exceed --filter-length 1024",
        "MINI OUT --mel-fmax 12000": "must not exceed half of --sampling-rate 22050",
        "MINI OUT --mel-fmin 8000": "--mel-fmin 8000 must be below --mel-fmax 8000",
        "MINI OUT --sampling-rate 100": "--sampling-rate 100 is not a sampling rate",
        "MINI OUT --channel 1024": "--channel 1024 must be mix",
        "MINI OUT --devices fast": "--devices takes auto, cpu or a number of GPUs",
    },
    "manifest-to-wenet": {
        "MINI OUT --raw --force-codec wav": "--force-codec has no effect with --raw",
        "MINI OUT --raw --shard-size 3": "--shard-size has no effect with --raw",
        "MINI OUT --raw --channel 1": "--channel has no effect with --raw",
        "MINI OUT --channel both": "--channel both must be mix",
        "MINI OUT --shuffle-seed 3": "--shuffle-seed has no effect without --shuffle: give both",
        "MINI OUT --prefix a/b": "--prefix 'a/b' must be of letters",
        "MINI OUT --target-sample-rate 10": "--target-sample-rate 10 is not a sampling rate",
    },
    "manifest-to-parquet": {
        "MINI OUT --corpus c": "--corpus has no effect without --form: give both, or leave --corpus out",
        "MINI OUT --form omnilingual": "no record has the field corpus, which names its folder: give --corpus",
        "MINI OUT --form omnilingual --corpus c": "no record has the field split, which names its folder: give",
        "MINI OUT --form omnilingual --corpus 2024": "--corpus 2024 must begin with a letter",
        "MINI OUT --form omnilingual --corpus c --set-split a_b": "--set-split a_b must begin with a letter, and have",
        "MINI OUT --form omnilingual --set-lang klingon": "--set-lang klingon is not known; write it as deu_Latn",
        "MINI OUT --form omnilingual --force-codec wav": "--force-codec wav: omnilingual-asr has flac or ogg",
        "MINI OUT --form omnilingual --target-sample-rate 8000": "--target-sample-rate has no effect with --form",
        "MINI 'p{1,2}'": "NeMo takes '{' in a path for a brace expression",
    },
    "texts-to-shards": {
        "nowhere.txt OUT": "file of texts not found: nowhere.txt",
        "CORPUS OUT": "is a directory",
        "empty.json OUT": "no texts in empty.json: the files are empty",
        "text.txt OUT --target nowhere.txt": "nowhere.txt",
        "text.txt OUT --target text.txt,text.txt": "1 file of texts and 2 of --target: give as many",
        "text.txt OUT --target MINI": "manifest.json is not lines of text (NeMo records)",
        "text.txt OUT --num-shards 2 --shard-size 3": "--num-shards and --shard-size contradict each other: give one",
        "text.txt OUT --num-shards 99": "1 line cannot fill 99 shards; lower --num-shards",
        "text.txt 'p{1,2}'": "NeMo takes '{' in a path for a brace expression",
    },
    "conversations-to-tarred": {
        "nowhere.jsonl OUT": "input not found: nowhere.jsonl",
        "MINI OUT": "manifest.json has no conversations: JSON lines with conversations or messages",
        "CORPUS OUT": "has no conversations",
        "text.txt OUT": "text.txt has no conversations",
        "empty.json OUT": "empty.json has no conversations",
        "chats.jsonl": "missing argument 'OUT'",
        "chats.jsonl chats.jsonl": "chats.jsonl",
        "chats.jsonl OUT --form sharegpt": "is not one of",
        "chats.jsonl OUT --num-shards 1 --shard-size 3": "--num-shards and --shard-size contradict each other",
        "chats.jsonl OUT --num-shards 2": "1 conversation cannot fill 2 shards; lower --num-shards",
        "chats.jsonl OUT --shard-hours 0": "--shard-hours must be above 0, not 0.0",
        "chats.jsonl OUT --target-sample-rate 10": "--target-sample-rate 10 is not a sampling rate",
        "chats.jsonl OUT --channel left": "--channel left must be mix, or the number of a channel",
        "chats.jsonl OUT --placeholder ''": "an argument is empty",
        "chats.jsonl OUT --shuffle-seed 3": "--shuffle-seed has no effect without --shuffle: give both",
        "chats.jsonl OUT --text-column words": "--text-column words is for tars, zip archives and Parquet files",
        "chats.jsonl OUT --input-format tarred": "--input-format tarred",
        "chats.jsonl 'OUT(1)'": "NeMo takes '(' in a path for a brace expression",
    },
    "convert-audio": {
        "nowhere.json OUT": "manifest not found: nowhere.json",
        "MINI OUT --channel 1.5": "--channel 1.5 must be mix, or the number of a channel",
        "MINI OUT --target-sample-rate 10": "--target-sample-rate 10 is not a sampling rate",
        "MINI s3://bucket/x": "OUT does not take an address in an object store",
    },
    "estimate-bins": {
        "nothing.json": "manifest not found: nothing.json",
        ".": "holds neither Shar",
        "[[nothing.json,1],[x,1]]": "manifest not found: nothing.json",
        "audio=x": "unknown key",
        "few.json": "30 buckets need at least as many examples; there are 2",
        "empty.json": "holds no example",
        "few.json -b 2 --batch-duration 0": "--batch-duration must be above 0, not 0.0",
        "few.json -b 2 --batch-duration nan": "--batch-duration must be above 0, not nan",
        "few.json -b 2 --max-rejects -1": "--max-rejects",
        "cut.json.gz": "cut short",
        "few.json -b 2 --plot no/such/folder.png": "folder.png: there is no folder no/such",
        "few.json -b 2 --plot few.png": "--plot few.png: a file that is not such a plot is there; give another name",
        "few.json -b 2 --plot p.png --write-config nothing/../p.png": "--plot p.png and --write-config nothing/../p",
        "few.json -b 2 --plot plot.nothing": "--plot plot.nothing: the name must end in one of .",
    },
    "estimate-bins-2d": {
        "few.json": "missing option",
        "few.json -t few.json": "few.json is not a Hugging Face tokenizer",
        "few.json -t bad.model": "bad.model is not a SentencePiece model",
        "few.json -t none.model": "tokenizer not found: none.model",
        "few.json -t a.model b.model": "2 tokenizers need as many languages",
        "few.json -t a.model b.model -a en": "there are 1",
        "none.json -t bad.model": "manifest not found",
        "few.json -t bad.model --max-rejects -1": "--max-rejects",
        "few.json -t bad.model -p []": "--prompt goes with a --prompt-format",
    },
    "blend": {
        "1h.json x.yaml": "1h.json: give NAME=SET",
        "a=gone.json x.yaml": "a: there is no file or directory gone.json",
        "a=gone.json:0.5 x.yaml": "a: there is no file or directory gone.json",
        "a=1h.json:0 x.yaml": "a: the weight must be a number above 0, not 0",
        "a=1h.json a=:x x.yaml": "a: the weight must be a number above 0, not x",
        "a=1h.json b=:1 x.yaml": "there is no set or group b",
        "a=1h.json:1 a=:2 x.yaml": "a has two weights, 1 and 2; give one",
        "a=1h.json a=2h.json x.yaml": "the name a stands for two data sets",
        "a=1h.json a/b=2h.json x.yaml": "a is a data set and a group",
        "a=1h.json x.json": "must be a file whose name ends in .yaml",
        "a=empty.json x.yaml": "a has no records",
        "a=nothing x.yaml": "nothing holds neither a tarred set",
        "a=1h.json x.yaml --tag x": "--tag takes FIELD=VALUE",
        "a=1h.json x.yaml --lang =x": "--lang takes LANG",
    },
    "filter": {
        "nowhere.json out.json": "manifest not found: nowhere.json",
        "MINI audio.wav": "this is a name of audio",
        "MINI out.json --keep": "--keep",
        "MINI out.json --keep 'duration >'": "--keep: a field or a value is missing, at the ^ in: duration >^",
        "MINI out.json --keep 'dration > 1'": "(did you mean duration?), at the ^ in: ^dration > 1",
        "MINI out.json --drop 'text < 3'": "--drop: the types do not compare: text is",
        "MINI out.json --keep 'text == 3'": "the comparison by == needs a number, at the ^ in: ^text",
        "MINI out.json --keep 'duration < 0'": "no record is left: the rules drop all of them; `keep dur",
        "MINI out.json --preset hifitts": "preset hifitts needs the field bandwidth, and no record of",
        "MINI out.json --preset best": "best",
        "MINI out.json --sample 1.5": "--sample takes a share below 1 or a number of records, not 1.5",
        "MINI out.json --sample 0": "--sample takes a share below 1 or a number of records, not 0",
        "MINI out.json --sample nan": "--sample takes a share below 1 or a number of records, not nan",
        "MINI out.json --unique ,": "--unique takes names of fields",
        "MINI out.json --unique speker": "no record has the field speker (did you mean speaker?)",
        "MINI out.json --drop-listed few.json": "is not the output of find-duplicates",
        "MINI out.json --html few.json": "a file that is not such a page is there; give another name",
        "MINI out.json --html ./out.json": "OUT.json out.json and --html out.json are one file: give one of",
        "few.json few.json": "would replace it",
        "empty.json out.json": "no records in empty.json: it has no lines",
    },
    "inspect": {
        "MINI --html x.html --csv x.html": "--html x.html and --csv x.html are one file: give one of them another",
        "MINI --html few.json": "--html few.json: a file that is not such a page is there",
        "MINI --csv few.json": "--csv few.json: a file that is not such a table is there",
        "a/x.wav --html x.html --csv x.csv": "--csv: a/x.wav has no records of manifests or cuts",
    },
    "split": {
        "nowhere.json OUT --part a=0.5": "manifest not found: nowhere.json",
        "MINI OUT": "give the parts: --part train=0.9 --part test=0.1",
        "MINI OUT --part train": "--part 'train': give NAME=AMOUNT with a share",
        "MINI OUT --part a=nan": "--part 'a=nan': give NAME=AMOUNT with a share",
        "MINI OUT --part a/b=0.5": "--part 'a/b=0.5': give NAME=AMOUNT",
        "MINI OUT --part a=0": "the amount must be above 0",
        "MINI OUT --part a=1.5": "a share is at most 1, and records are whole numbers",
        "MINI OUT --part a=0.5 --part A=0.2": "a is given twice",
        "MINI OUT --part a=rest --part b=rest": "only one part can take the rest",
        "MINI OUT --part a=0.7 --part b=0.7": "the shares add up to 1.4, more than 1",
        "MINI OUT --part a=99h": "the parts ask for 99.00 h, and there are",
        "MINI OUT --part a=99": "the parts ask for 99 records, and there are 48; ask for less",
        "MINI OUT --part a=rest --part b=0.1s": "asks for 0.1 s, and whole speakers give 0.0 s: the small",
        "MINI OUT --part a=rest --part b=48": "nothing is left for a; ask for less in the other parts",
        "MINI OUT --part a=0.5 --part b=0.5 --by lnag": "--by lnag: no record has this field",
        "MINI OUT --part a=0.5 --part b=0.5 --by ' '": "--by takes a field, or none",
        "MINI OUT --part a=0.5 --part b=0.5 --keep-parts nothing": "nothing has none of a.json, b.json",
        "few.json OUT --part a=0.5 --part b=0.5 --by text": "there is only one text, which cannot be in two parts",
        "empty.json OUT --part a=0.5": "no records in empty.json: it has no lines",
    },
    "score": {
        "nowhere.json out.json": "manifest not found: nowhere.json",
        "MINI out.json --fields loud": "--fields takes basic, bandwidth_sdp, speech, text, not loud",
        "MINI out.json --fields ,": "--fields takes basic, bandwidth_sdp, speech, text",
        "MINI out.json --channel left": "--channel left must be mix, or the number of a channel",
        "MINI audio.wav": "this is a name of audio",
        "MINI": "missing argument 'OUT.json'",
        "few.json few.json --fields basic": "would replace it",
        "few.json new/../few.json --fields basic": "leads through new, which does not exist; write the path without it",
        "empty.json out.json": "no records in empty.json: it has no lines",
        "CORPUS out.json": "is not a data set",
    },
    "segment": {
        "nowhere.json out.json --by windows": "input not found: nowhere.json",
        "MINI out.json --by words": "is not one of",
        "MINI out.json --by windows --max 5": "--max has no effect with --by windows",
        "MINI out.json --by windows --window 0": "--window must be above 0, not 0.0",
        "MINI out.json --by times --window 5": "--window has no effect with --by times",
        "MINI out.json --by speech --end-at pause": "--end-at has no effect with --by speech",
        "MINI out.json --by speech --times .": "--times has no effect with --by speech",
        "MINI out.json --by times --times nowhere": "nowhere does not exist; give a folder or a file with times",
        "MINI out.json --by times --times-format ctm": "--times-format has no effect without --times",
        "MINI out.json --by times --times text.txt": "text.txt has no times in a form that is known",
        "MINI out.json --by times --min 5 --max 4": "--min is more than --max",
        "MINI out.json --by times --pad 10": "leaves no room between two margins",
        "MINI out.json --by windows --whisper-times --window 31": "Whisper hears 30 s, so --window is at most 30",
        "MINI out.json --by windows --whisper-times --rttm-out rttm": "are for different models: choose one",
        "MINI out.json --by windows --rttm-out ../rttm": "is not a folder in",
        "MINI out.json --by windows --channel left": "--channel left must be mix, or the number of a channel",
        "MINI audio.wav --by windows": "this is a name of audio",
        "MINI": "missing argument 'OUT.json'",
        "few.json few.json --by windows": "would replace it",
        "empty.json out.json --by windows": "no records in empty.json: it has no lines",
    },
    "find-duplicates": {
        "nowhere.json out.jsonl": "input not found: nowhere.json",
        "MINI out.jsonl --by sound": "--by takes audio, near-audio, text, speaker, not sound",
        "MINI out.jsonl --by ,": "--by takes audio, near-audio, text, speaker",
        "MINI out.jsonl --between": "--between needs two inputs or more",
        "MINI out.jsonl --by speaker": "--by speaker needs two inputs or more",
        "MINI out.jsonl --speaker-model resemblyzer": "compares voices in a run of its own: give --by speaker",
        "MINI out.jsonl --by speaker --speaker-model nowhere.nemo": "nowhere.nemo",
        "MINI out.jsonl --min-voice-similarity 0.5": "--speaker-model",
        "MINI audio.wav": "this is a name of audio",
        "MINI": "name the file to write: OUT.jsonl, or --write-prints FILE",
        "": "missing argument 'INPUT...'",
        "MINI out.jsonl --against few.json": "it is not a file of prints",
        "MINI out.jsonl --certificate c.json": "--certificate has no effect without --against",
        "MINI out.jsonl --write-prints a/x.prints --by sound": "--by takes audio",
        "few.json few.json few.json --by text": "the last file is OUT.jsonl",
        "empty.json out.jsonl": "no records in empty.json: it has no lines",
    },
    "make-manifest": {
        "empty.txt m.json": "is empty",
        "nemo.txt m.json": "prepcli fix-durations",
        "json.txt m.json": "name audio (keys a); name it with --audio-column",
        "binary.txt m.json": "is not a source (a binary file)",
        "list.txt m.json --format kaldi": "--format kaldi reads a folder",
        "list.txt m.json --text-column t": "are for tables",
        "list.txt m.json --run-commands": "--run-commands is for the commands of Kaldi and lhotse; ",
        "list.txt m.json --set a=1 --set a=2": "a is given twice, as 1 and as 2",
        "list.txt m.json --lang en --set lang=de": "lang is given twice, as en and as de",
        "list.txt m.json --set x": "--set takes FIELD=VALUE, not 'x'",
        "list.txt m.json --set duration=1": "--set cannot give duration",
        "list.txt m.json --speaker-pattern '('": "is not a regular expression",
        "list.txt m.json --text-suffix .txt --transcripts list.txt": "not both",
        "list.txt m.json --text-suffix txt": "did you mean .txt?",
        "list.txt m.json --speaker-pattern '^(.)' --set speaker=x": "a record has one speaker",
        "list.txt m.json --text-suffix .txt --set text=x": "give --text-suffix or --set text=..., not both",
        "list.txt m.json --transcripts list.txt --set text=x": "give --transcripts or --set text=..., not both",
    },
}
"""Command -> arguments -> words of the line; the files are those of the fixture `folder`."""
MINI = str(SHORT_CORPUS / "manifest.json")
SHORT = {
    "MINI": [MINI],
    "CORPUS": [str(SHORT_CORPUS)],
    "TOY": ["--model-class", "toys.Toy", "--config", "toy.yaml"],
    "CODES": [
        str(SHORT_CORPUS / "manifest.json"),
        *["--output-dir", "OUT", "--codec-model", "some_name", "--devices", "cpu"],
    ],
}
"""What some words of the table stand for."""
NEEDED = {"resemblyzer": "resemblyzer", "bad.model": "sentencepiece"}
"""Words of calls that are judged by an optional package."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small files of all kinds; no call may change them or add to them."""
    made = tmp_path_factory.mktemp("calls")
    few = write_lines(made / "few.json", [{"audio_filepath": "a", "duration": d, "text": "x"} for d in (1, 2)])
    (made / "cut.json.gz").write_bytes(gzip.compress(few.read_bytes())[:-9])
    for name in ("1h.json", "2h.json"):
        write_lines(made / name, [{"audio_filepath": "a/x.wav", "duration": 1.0, "text": "x"}])
    write_audio(made / "a/x.wav", 1.0)
    write_conversations(made / "1h.json")
    (made / "nothing").mkdir()
    for name, text in {
        "empty.json": "",
        "empty.txt": "",
        "nemo.txt": '{"audio_filepath": "a.wav", "duration": 1}\n',
        "json.txt": '{"a": 1}\n',
        "binary.txt": "\0\0\n",
        "list.txt": "a/x.wav\n",
        "few.png": "no plot\n",
        "text.txt": "no config",
        "toy.yaml": "model: {}\n",
        "bad.model": "no model",
        "text.nemo": "no archive\n" * 99,
    }.items():
        (made / name).write_text(text)
    write_tar(made / "empty.nemo", {"model_weights.ckpt": b""})
    config = b"target: nemo.collections.asr.models.ctc_models.EncDecCTCModel\n"
    write_tar(made / "asr.nemo", {"./model_config.yaml": config, "./model_weights.ckpt": b""})
    return made


@pytest.mark.parametrize(
    ("command", "arguments"), [(command, one) for command, calls in CALLS.items() for one in calls]
)
def test_a_wrong_call_is_one_line(command: str, arguments: str, folder: Path) -> None:
    words = [word for one in shlex.split(arguments) for word in SHORT.get(one, [one])]
    for name in {NEEDED[word] for word in words if word in NEEDED}:
        need_package(name)
    before = sorted(folder.rglob("*"))
    done = prepcli(command, *words, cwd=folder)
    assert (done.code, done.out) == (2, ""), done.err
    assert CALLS[command][arguments] in done.error_line
    assert sorted(folder.rglob("*")) == before


PIPED = {
    "filter MINI OUT.json --drop-listed PIPE": "--drop-listed is a pipe or a device, not a file",
    "split MINI OUT --part a=0.5 --part b=0.5 --disjoint-listed PIPE": "--disjoint-listed is a pipe or a device",
    "estimate-bins-2d MINI -t PIPE": "tokenizer is a pipe or a device, not a file",
    "blend a=MINI PIPE.yaml --no-check": "PIPE.yaml is a pipe or a device, not a file; name a file, such as mix.yaml",
    "make-manifest FOLDER OUT.json": "metadata is a pipe or a device, not a file",
}
"""Calls with a pipe, as `<(command)` of a shell is one: it would be waited for, or read once and then waited for."""


@pytest.mark.parametrize("call", PIPED)
def test_no_pipe_is_waited_for(call: str, tmp_path: Path) -> None:
    for name in ("PIPE", "PIPE.yaml", "FOLDER/metadata.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / name)
    done = prepcli(*shlex.split(call.replace("MINI", str(SHORT_CORPUS / "manifest.json"))), cwd=tmp_path)
    assert (done.code, PIPED[call] in done.error_line) == (2, True), done.err
