"""The calls: every command of `prepcli --help`, on each kind of data set, and on broken inputs.

`tests/golden/running.py` explains the lines. `LEFT_OUT` names what is not here, and why.
"""

LEFT_OUT = {
    "estimate-batch-sizes, a search": "needs a model of NeMo: the plan and refused calls are here",
    "extend-codec-codes with a codec of NeMo or transformers": "needs NeMo, or a network",
    "extend-context-audio with titanet_large": "needs NeMo and a network; resemblyzer is here",
    "blend --check nemo": "reads the result with NeMo",
    "prepare-texts --normalize": "needs nemo_text_processing",
    "s3:// and hf:// addresses": "need a server that speaks their protocol: tests/storage",
    "Slurm, torchrun, MPI": "need launchers: tests/slurm; --rank and --world-size are here",
    "signals and kills": "are a matter of time: tests/jobs/test_kill_matrix.py",
}
"""Calls that need more than a machine without a network and without NeMo has."""

JOBS = {
    "tarred": ("manifest-to-tarred {manifest} out --num-shards 3", "out", "--num-shards 2"),
    "shar": ("manifest-to-shar {manifest} out --shard-size 8", "out", "--shard-size 5"),
    "wenet": ("manifest-to-wenet {manifest} out --shard-size 8", "out", "--shard-size 5"),
    "parquet": ("manifest-to-parquet {manifest} out --shard-size 8", "out", "--shard-size 5"),
    "mels": ("manifest-to-mels {manifest} out --devices cpu", "out", "--n-mel-channels 40"),
    "convert": ("convert-audio {manifest} out --force-codec wav", "out", "--target-sample-rate 8000"),
    "fix-durations": ("fix-durations {manifest} out.json", "out.json", "--audio-base-dir corpus/s01"),
    "segment": ("segment {manifest} out.json --by windows --window 0.5 --min 0.1", "out.json", "--channel mix"),
    "score": ("score {manifest} out.json", "out.json", "--fields text"),
    "filter": ("filter {manifest} out.json --keep 'duration > 0.2' --unique text", "out.json", "--sample 0.5"),
    "split": ("split {manifest} out --part a=0.5 --part b=rest", "out", "--seed 3"),
    "duplicates": ("find-duplicates {manifest} out.jsonl --by audio,text", "out.jsonl", "--by text"),
    "texts": ("prepare-texts {manifest} out.json --asr-text lower", "out.json", "--speakers 1-3"),
    "context": (
        "extend-context-audio {manifest} out --speaker-model resemblyzer --devices cpu"
        " --context-min-duration 0.1 --context-min-ssim 0.1",
        "out",
        "--context-min-ssim 0.2",
    ),
    "codes": (
        "extend-codec-codes {manifest} --output-dir out --codec-model golden:4 --devices cpu --pool-duration 1",
        "out",
        "--precision bf16",
    ),
}
"""Jobs on a manifest: the call, where OUT is, and what makes the settings of OUT others."""

LIFE = """
0 {call} --dry-run
0 {call} --dry-run --json
0 {call}
0 again
0 again --json
2 {call} {other}
0 {call} --overwrite --num-workers 1
{replaced} {call} {other} --overwrite --json
0 status {out}
0 status {out} --json
{inspect} inspect {out}
0 verify {out} --json
"""

RANKS = """
# One after the other, each its own share, then the rest.
0 {call} --rank 0 --world-size 2 --no-steal
0 status {out} --json
0 {call} --rank 1 --world-size 2 --no-steal
0 {call}
# At once.
0 &{call} --overwrite --rank 0 --world-size 2 --launch-id x
0 {call} --overwrite --rank 1 --world-size 2 --launch-id x
0 {call} --json
"""

BROKEN = """
{bad_lines} {bad_lines_call}
0 again --max-rejects 99
{bad_lines} again --json
$ rm -rf out*
{bad_audio} {bad_audio_call} --max-rejects 99 --json
{bad_audio} again
$ cp corpus/s01/*.flac bad_audio/s01/
0 {bad_audio_call} --max-rejects 99 --retry-rejects
$ rm -rf out*
{many} {many_rejects_call} --num-workers 1
{many} again --json
0 again --max-rejects 0.6
0 status {out}
"""

KINDS = {
    "nemo_tarred": "nemo_tarred",
    "shar": "shar",
    "wenet": "wenet",
    "webdataset": "webdataset",
    "datasets": "datasets",
    "omnilingual": "omnilingual",
    "zip": "zip/all.zip",
    "zip_deflated": "zip_deflated/all.zip",
    "tar_gz": "tar_gz/all.tar.gz",
}
"""Data sets that stand in the place of a manifest."""

KIND = """
{inspect} inspect {set} --json
0 inspect {set}
{verify} verify {set}
0 make-manifest {set} made.json --format set
0 manifest-to-tarred {set} tarred --num-shards 2 --no-shuffle
0 manifest-to-shar {set} made_shar --shard-size 4
0 manifest-to-wenet {set} made_wenet --shard-size 4 --target-sample-rate 16000
0 manifest-to-parquet {set} made_parquet --shard-size 4 --json
0 convert-audio {set} files
0 score {set} scored.json
0 find-duplicates {set} made.json groups.jsonl
1 find-duplicates {set} made.json between.jsonl --between
0 estimate-bins {set} -b 2
0 verify tarred
0 verify made_shar
0 inspect made_wenet
0 segment {set} windows.json --by windows --window 0.3 --min 0.1
0 verify windows.json
"""

COMMANDS: dict[str, str] = {
    "account": """
        0 filter corpus/manifest.json kept.json --keep 'duration > 0.2'
        0 split kept.json parts --part a=rest --part b=0.3
        0 manifest-to-tarred parts/a.json out --num-shards 2
        0 status --account out
        0 status --account out --json
        2 status --account out parts
        0 explain s01_u2.flac --in out
        0 explain s01_u1 --in out --json
        2 explain nobody --in out
        2 explain s01_u1 --in corpus
        0 compare corpus/manifest.json out
        0 compare out parts/a.json --no-audio --json
        0 compare kept.json kept.json --html page.html
    """,
    "adding": """
        0 manifest-to-tarred corpus/manifest.json out --num-shards 2
        0 manifest-to-tarred corpus/more.json --concat-to out --dry-run
        0 manifest-to-tarred corpus/more.json --concat-to out
        0 again
        0 again --json
        0 verify out
        0 status out
        2 manifest-to-tarred corpus/both.json --concat-to out
        0 manifest-to-tarred corpus/both.json --concat-to out --allow-duplicates --json
        0 inspect out --json
        0 manifest-to-tarred --undo-concat out --dry-run
        0 manifest-to-tarred --undo-concat out
        0 verify out
        0 manifest-to-tarred --undo-concat out --json
        2 manifest-to-tarred --undo-concat out
        2 manifest-to-tarred corpus/manifest.json out --num-shards 3
        0 manifest-to-tarred corpus/manifest.json out --num-shards 2
        0 manifest-to-tarred corpus/manifest.json out --num-shards 3 --overwrite
        2 manifest-to-tarred corpus/segments.json --concat-to out --slice-with-offset
        0 manifest-to-tarred corpus/segments.json --concat-to out
        0 filter out --drop 'duration > 0.4' --skipme
        0 again
        0 filter out --drop 'duration > 0.3' --skipme --json
        0 verify out --json
        2 manifest-to-shar corpus/manifest.json out
    """,
    "adding_rejects": """
        0 manifest-to-tarred corpus/manifest.json out --num-shards 2
        3 manifest-to-tarred bad_audio/manifest.json --concat-to out --allow-duplicates
        0 again --max-rejects 9
        $ cp corpus/s01/*.flac bad_audio/s01/
        0 manifest-to-tarred bad_audio/manifest.json --concat-to out --allow-duplicates --max-rejects 9 --retry-rejects
        0 verify out
        0 manifest-to-tarred corpus/more.json --concat-to out --overwrite
        0 manifest-to-tarred --undo-concat out
        0 &manifest-to-tarred corpus/more.json --concat-to out --rank 0 --world-size 2
        0 manifest-to-tarred corpus/more.json --concat-to out --rank 1 --world-size 2
        0 verify out
    """,
    "tarred_options": """
        0 manifest-to-tarred corpus/manifest.json shuffled --num-shards 3 --shuffle --shuffle-seed 5 --sort-in-shards
        0 manifest-to-tarred corpus/manifest.json sized --shard-size 5 --remainder drop --no-index
        0 manifest-to-tarred corpus/manifest.json hours --shard-hours 0.0005 --no-shard-manifests
        0 manifest-to-tarred corpus/manifest.json buckets --num-shards 2 --buckets-num 2 --max-duration 1
        0 verify buckets
        0 manifest-to-tarred corpus/manifest.json bins --num-shards 2 --dynamic-buckets-num 3 --json
        0 manifest-to-tarred corpus/segments.json sliced --num-shards 2 --slice-with-offset --force-codec flac
        0 manifest-to-tarred corpus/segments.json,corpus/manifest.json together --num-shards 2 --keep-files-together
        0 manifest-to-tarred corpus/manifest.json opus --num-shards 2 --force-codec opus
        0 manifest-to-tarred corpus/manifest.json rates --num-shards 2 --target-sample-rate 16000 --min-duration 0.2
        2 manifest-to-tarred corpus/manifest.json sized --shard-size 5 --remainder drop --no-index --only-manifests
        0 manifest-to-tarred corpus/manifest.json lists --shard-size 5 --only-manifests
        0 manifest-to-tarred corpus/manifest.json,corpus/more.json two --num-shards 2 --verbose
        2 manifest-to-tarred corpus/manifest.json none
        2 manifest-to-tarred corpus/none.json none --num-shards 2
        2 manifest-to-tarred corpus/manifest.json none --num-shards 25
    """,
    "not_ours": """
        $ mkdir out && echo mine > out/mine.txt && echo mine > out/audio_0.tar
        2 manifest-to-tarred corpus/manifest.json out --num-shards 2
        2 again --overwrite
        $ rm out/audio_0.tar
        0 manifest-to-tarred corpus/manifest.json out --num-shards 2
        $ echo changed >> out/audio_1.tar
        1 verify out
        1 verify out --quick --json
        0 status out
        0 manifest-to-tarred corpus/manifest.json out --num-shards 2
        $ rm out/sharded_manifests/manifest_0.json
        0 manifest-to-tarred corpus/manifest.json out --num-shards 2
        0 verify out --json
        0 manifest-to-tarred corpus/manifest.json out --num-shards 2 --overwrite
        0 manifest-to-tarred corpus/manifest.json out --num-shards 1 --overwrite
        $ rm -r out
        0 manifest-to-tarred corpus/manifest.json out --num-shards 1
        $ rm -r out.prepcli
        2 manifest-to-tarred corpus/manifest.json out --num-shards 1
        0 verify out
        0 inspect out
        2 status out
    """,
    "changed_inputs": """
        0 manifest-to-tarred corpus/manifest.json out --num-shards 2
        $ touch -d @1700000001 corpus/manifest.json
        0 manifest-to-tarred corpus/manifest.json out --num-shards 2 --verify-inputs
        $ sed -i 1d corpus/manifest.json && touch -d @1700000002 corpus/manifest.json
        2 manifest-to-tarred corpus/manifest.json out --num-shards 2
        0 again --overwrite
        $ mv out moved
        $ mv out.prepcli moved.prepcli
        0 verify moved
        0 status moved
        0 manifest-to-tarred corpus/manifest.json moved --num-shards 2
        0 manifest-to-tarred corpus/manifest.json out --num-shards 2 --num-workers 2
    """,
    "shar_extended": """
        0 manifest-to-shar corpus/with_context.json set --shard-size 8
        0 inspect set --json
        0 extend-codec-codes set --codec-model golden:4 --devices cpu --dry-run
        0 extend-codec-codes set --codec-model golden:4 --devices cpu
        0 again --json
        2 extend-codec-codes set --codec-model golden:2 --codec-name golden_4 --devices cpu
        0 extend-codec-codes set --codec-model golden:2 --codec-name b --devices cpu --json
        0 extend-codec-codes set --codec-model golden:2 --codec-name b --devices cpu --overwrite
        0 extend-text-context set --suffix field:lang
        0 extend-text-context set --suffix field:lang --json
        2 extend-text-context set --suffix field:text
        0 extend-text-context set --suffix field:text --overwrite
        0 verify set
        0 status set
        0 status set --json
        2 manifest-to-shar corpus/with_context.json set --shard-size 5
        0 manifest-to-shar corpus/with_context.json set --shard-size 8
        2 index set
        0 inspect set
        2 extend-codec-codes set --codec-model none:2
        0 manifest-to-shar corpus/with_context.json set --shard-size 5 --overwrite
        1 verify set
    """,
    "shar_options": """
        0 manifest-to-shar corpus/with_context.json wav --shard-size 8 --audio-format wav --target-sample-rate 16000
        0 manifest-to-shar corpus/with_context.json indexed --shard-size 8 --indexed --shuffle --shuffle-seed 3
        0 verify indexed
        0 manifest-to-shar corpus/segments.json original --shard-size 4 --audio-format original --no-shuffle
        0 verify original
        0 manifest-to-shar shar again --shard-size 5
        2 manifest-to-shar corpus/manifest.json none --shard-size 0
    """,
    "codes_for_trainers": """
        0 extend-codec-codes corpus/manifest.json --output-dir out --codec-model golden:8@24000 --devices cpu \
            --output-form omnivoice --shard-size 9
        0 again --json
        0 verify out
        0 extend-codec-codes corpus/manifest.json --output-dir out2 --codec-model golden:16@24000 --devices cpu \
            --output-form qwen3-tts --ref-audio corpus/voice.wav --json
        0 verify out2
        2 extend-codec-codes shar --output-dir out3 --codec-model golden:4 --devices cpu --output-form shar
        0 extend-codec-codes nemo_tarred --output-dir out4 --codec-model golden:4 --devices cpu --json
        0 inspect out4
    """,
    "context_options": """
        0 extend-context-audio corpus/manifest.json out --speaker-model resemblyzer --devices cpu --save-embeddings \
            --context-min-duration 0.1 --context-min-ssim 0 --json
        0 verify out
        0 inspect out
        0 extend-context-audio corpus/manifest.json out2 --speaker-model resemblyzer --devices cpu \
            --reuse-embeddings out --group-by 'regex:lang:(.*)' --max-rejects 30 \
            --context-min-duration 0.2 --context-min-ssim 0.3
        0 extend-context-audio shar out3 --speaker-model resemblyzer --devices cpu \
            --context-min-duration 0.1 --context-min-ssim 0
        2 extend-context-audio corpus/manifest.json out4 --speaker-model nothing.nemo
    """,
    "export_options": """
        0 manifest-to-wenet corpus/manifest.json raw --raw --relative-to corpus
        0 manifest-to-wenet corpus/segments.json segments --shard-size 4 --prefix train --force-codec flac
        0 verify segments
        0 manifest-to-parquet corpus/manifest.json omni --form omnilingual --corpus c --set-split train --set-lang en
        0 verify omni
        0 manifest-to-parquet corpus/manifest.json groups --shard-size 9 --row-group-size 2 --force-codec flac --shuffle
        0 manifest-to-mels corpus/manifest.json lists --lists-only
        0 convert-audio corpus/segments.json segments2 --force-codec flac --target-sample-rate 8000 --channel mix
        0 verify segments2
        0 convert-audio zip/all.zip unpacked --json
        2 convert-audio bad_audio/manifest.json corpus
    """,
    "texts": """
        0 texts-to-shards corpus/texts.txt out --num-shards 2 --dry-run
        0 texts-to-shards corpus/texts.txt out --num-shards 2
        0 again --json
        0 texts-to-shards corpus/texts.txt out --num-shards 3 --shuffle --overwrite --json
        0 verify out
        0 inspect out
        0 texts-to-shards corpus/texts.txt pairs --target corpus/texts.txt --shard-size 9
        2 texts-to-shards corpus/texts.txt bad --target corpus/manifest.json
    """,
    "conversations": """
        0 conversations-to-tarred chats/nemo.jsonl out --num-shards 2 --dry-run
        0 conversations-to-tarred chats/nemo.jsonl out --num-shards 2
        0 again --json
        2 conversations-to-tarred chats/nemo.jsonl out --num-shards 3
        0 conversations-to-tarred chats/nemo.jsonl out --num-shards 3 --shuffle --overwrite --json
        0 verify out --json
        0 inspect out
        0 status out
        0 conversations-to-tarred out again --shard-hours 0.001 --force-codec wav --target-sample-rate 8000
        0 conversations-to-tarred chats/share_gpt.jsonl pairs --form sharegpt-webdataset --shard-size 3
        0 verify pairs
        0 inspect pairs
        0 conversations-to-tarred pairs again2 --json
        0 conversations-to-tarred chats/swift.jsonl,chats/qwen.jsonl both
        3 conversations-to-tarred chats/swift.jsonl none --form sharegpt-webdataset
        3 conversations-to-tarred chats/bad.jsonl bad
        0 again --max-rejects 9 --json
        2 conversations-to-tarred corpus/manifest.json wrong
        2 manifest-to-tarred chats/qwen.jsonl wrong --num-shards 1
        0 inspect chats/nemo.jsonl
        0 inspect chats/swift.jsonl --json
        0 verify chats/nemo.jsonl
        1 verify chats/bad.jsonl
        0 filter chats/share_gpt.jsonl kept.json --keep 'duration > 0.2'
        0 verify kept.json
        0 inspect kept.json
        0 split chats/qwen.jsonl parts --part a=0.5 --part b=rest
        0 blend chats=out asr=corpus/manifest.json mix.yaml --no-check
    """,
    "make_manifest": """
        0 make-manifest corpus folder.json --text-suffix .txt --speaker-pattern '(s[0-9]+)/' --max-rejects 9 --json
        0 again
        2 make-manifest corpus folder.json --speaker-pattern '(s[0-9]+)/'
        0 make-manifest corpus/list.txt list.json --lang en --set source=golden --absolute-paths
        0 make-manifest corpus/filelist.txt filelist.json
        0 make-manifest corpus/table.csv table.json --dry-run
        0 make-manifest corpus/table.csv table.json --num-workers 1 --json
        0 make-manifest kaldi kaldi.json --max-rejects 1
        0 make-manifest cuts/cuts.jsonl.gz cuts.json
        0 make-manifest cuts/apart apart.json
        0 make-manifest webdataset named.json --format set
        3 make-manifest bad_audio broken.json
        0 again --max-rejects 9 --json
        $ cp corpus/s01/*.flac bad_audio/s01/
        2 make-manifest bad_audio broken.json --max-rejects 9 --retry-rejects
        0 make-manifest bad_audio broken.json --max-rejects 9 --overwrite
        0 status folder.json list.json broken.json
        0 status folder.json list.json --json
        0 &make-manifest corpus ranks.json --rank 0 --world-size 2
        0 make-manifest corpus ranks.json --rank 1 --world-size 2
        0 verify list.json
        2 make-manifest corpus/none.csv none.json
        2 make-manifest tokens none.json
    """,
    "selecting": """
        0 filter corpus/manifest.json,corpus/more.json kept.json --keep 'duration > 0.15' --drop 'len(text) > 60' --json
        0 filter corpus/manifest.json marked.json --drop 'duration > quantile(duration, 0.8)' --skipme --html rules.html
        0 filter marked.json merged.json
        0 filter corpus/manifest.json sample.json --sample 7 --seed 3
        2 filter corpus/manifest.json wrong.json --keep 'duration >'
        2 filter corpus/manifest.json wrong.json --preset emilia
        0 split corpus/manifest.json parts --part train=rest --part dev=4 --part test=1s --balance lang --by none
        0 split corpus/both.json,corpus/more.json parts2 --part train=rest --part dev=0.3 --keep-parts parts --by none
        2 split corpus/manifest.json wrong --part train=x
        0 find-duplicates corpus/manifest.json corpus/both.json groups.jsonl --by audio,near-audio,text
        1 find-duplicates corpus/manifest.json corpus/both.json between.jsonl --between
        0 find-duplicates corpus/manifest.json corpus/more.json none.jsonl --between --json
        0 filter corpus/both.json without.json --drop-listed groups.jsonl
        0 find-duplicates corpus/manifest.json voices.jsonl --by speaker --speaker-model resemblyzer --devices cpu
        0 score corpus/manifest.json scored.json --fields basic,bandwidth_sdp,text --json
        0 score corpus/segments.json speech.json --fields speech
        0 inspect scored.json
        0 prepare-texts corpus/texts.txt texts.json --num-shards 2 --speakers 0-3 --is-normalized --json
        0 fix-durations corpus/wrong_durations.json fixed.json
        0 fix-durations corpus/segments.json fixed2.json --json
    """,
    "segmenting": """
        0 segment corpus/long times.json --by times --times corpus/long --max 5 --join-pause 0.1
        0 again --json
        2 segment corpus/long times.json --by times --times corpus/long --max 6
        0 segment corpus/long times.json --by times --times corpus/long --max 6 --overwrite --json
        0 verify times.json
        0 inspect times.json
        0 segment corpus/long sentences.json --by times --times corpus/long/s01.srt --end-at punctuation --dry-run
        0 segment corpus/long speech.json --by speech --max 5
        0 segment corpus/segments.json apart.json --by speech --min 0.2 --cut files --json
        0 verify files
        0 segment corpus/long whisper.json --by windows --window 6 --times corpus/long --whisper-times
        0 segment corpus/long turns.json --by times --times corpus/turns.rttm --same-speaker --overlap keep
        0 segment corpus/long rttm.json --by windows --window 6 --times corpus/turns.rttm --rttm-out rttm --json
        0 status rttm.json
        3 segment corpus/long none.json --by times
        0 segment corpus/long none.json --by times --max-rejects 1 --json
        2 segment corpus/long wrong.json --by windows --max 5
        2 segment corpus/long wrong.json --by times --times corpus/none
        2 segment tokens wrong.json --by windows
    """,
    "estimating": """
        0 estimate-bins corpus/manifest.json -b 4
        0 estimate-bins corpus/manifest.json,corpus/more.json -b 4 -l 0.15 -u 0.5 --json --batch-duration 3
        0 estimate-bins '[[corpus/manifest.json,0.7],[corpus/more.json,0.3]]' -b 3 -q --plot bins.png
        0 estimate-bins corpus/manifest.json -b 3 --write-config tokens/train.yaml
        0 estimate-bins cuts/cuts.jsonl.gz -b 3 --json
        3 estimate-bins bad_lines/manifest.json -b 3
        0 estimate-bins bad_lines/manifest.json -b 3 --max-rejects 99 --json
        2 estimate-bins corpus/none.json
        0 estimate-bins-2d corpus/manifest.json -t tokens/tokenizer.model -b 3 -s 2
        0 estimate-bins-2d corpus/manifest.json -t tokens/tokenizer.model -b 3 -s 2 --json --write-config new.yaml
        0 estimate-token-bins tokens/texts.yaml -t tokens/tokenizer.model -b 3
        0 estimate-token-bins tokens/texts.yaml -t tokens/tokenizer.model -b 3 -s 2 --json
        2 estimate-token-bins corpus/manifest.json -t tokens/tokenizer.model
        2 estimate-batch-sizes -b '[1.0]'
        2 estimate-batch-sizes --model none.nemo --device cpu --dry-run
    """,
    "mixing": """
        0 manifest-to-tarred corpus/manifest.json tarred --num-shards 2
        0 manifest-to-shar corpus/more.json made --shard-size 4 --indexed
        $ rm -r made/index
        0 blend en/a=tarred b=made mix.yaml --no-check --temperature 0.5 --lang b=en --dry-run
        0 blend en/a=tarred b=made mix.yaml --no-check --temperature 0.5 --lang b=en
        0 again
        0 blend en/a=tarred b=made mix.yaml --no-check --overwrite --by records --json
        0 blend a=tarred:0.7 m=corpus/more.json:0.3 mix2.yaml --no-check --tag a:kind=x
        2 inspect mix.yaml
        0 estimate-bins mix2.yaml -b 3
        2 blend a=none mix3.yaml
        0 blend w=wenet mix.list --no-check
        0 index tarred made --json
        0 index tarred made --overwrite
        0 index tarred made --check
        0 index corpus/manifest.json nemo_tarred/audio_0.tar --dry-run
        0 index corpus/manifest.json nemo_tarred/audio_0.tar
        $ sed -i 1d corpus/manifest.json
        1 index corpus/manifest.json --check
        0 index made --indexes-root indexes --num-workers 1
        $ mv made moved
        0 index moved --rebase
    """,
    "looking": """
        0 --help
        0 --version
        0 manifest-to-tarred --help
        2 no-such-command
        2 manifest-to-tarred --no-such-option
        0 download --list
        0 download --list --json
        0 inspect corpus/manifest.json
        0 inspect corpus/manifest.json --json --csv speakers.csv --num-audio-files 3
        0 inspect corpus/manifest.json --record 3
        0 inspect corpus/segments.json --html page.html
        0 inspect corpus/s01/s01_u1.flac
        0 inspect cuts/cuts.jsonl.gz --json
        0 inspect bad_lines/manifest.json
        0 inspect bad_audio/manifest.json --json
        2 inspect none.json
        0 verify corpus/with_context.json
        1 verify bad_lines/manifest.json --json
        1 verify bad_audio/manifest.json
        2 verify tokens
        2 status corpus
        3 manifest-to-wenet many_rejects/manifest.json out
        0 inspect out.prepcli
        0 inspect out.prepcli/rejects.jsonl
        0 manifest-to-wenet out.prepcli/rejects.jsonl out2 --audio-base-dir corpus
    """,
}
"""Commands with their own options, and what happens to an OUT in the course of time."""

SITE = "--base-url {site} --checksums published/sums.txt --max-rejects 99"
DOWNLOADS = {
    "librispeech": f"--data-root out --data-sets mini {SITE}",
    "an4": "--data-root out --base-url {site}",
    "aishell": f"--data-root out {SITE}",
    "aishell2": "--data-root out --audio-folder copies/aishell2",
    "ljspeech": f"--data-root out {SITE} --val-size 2 --test-size 2",
    "libritts": f"--data-root out --data-sets dev_clean {SITE}",
    "libritts-r": f"--data-root out --data-sets dev_clean {SITE}",
    "hifitts": f"--data-root out {SITE}",
    "hifitts2": "--data-root out --metadata copies/hifitts2 --chapters copies/hifitts2/chapters --max-rejects 99",
    "vctk": f"--data-root out {SITE}",
    "mls": f"--data-root out --language polish {SITE}",
    "common-voice": (
        "--data-root out --language en --archive copies/archives/cv-corpus-25.0-2026-03-09-en.tar.gz"
        " --checksums published/sums.txt --max-rejects 99"
    ),
    "fisher": "--ldc-root copies/fisher --dest-root out --min-slice-duration 2",
    "hub5": "--data-root copies/hub5 --dest-root out --min-slice-duration 2",
    "lhotse": "ljspeech copies/ljspeech --data-root out",
}
"""The corpora of `prepcli download`, from a server on this machine or from a copy; OUT is `out`."""

DOWNLOAD = """
0 download {name} {options} --dry-run
0 download {name} {options}
0 again
0 again --json
0 status out
0 download {name} {options} --overwrite --num-workers 1
"""

MORE_DOWNLOADS = """
0 download an4 --data-root out --base-url {site} --fetch-only
0 download an4 --data-root out --base-url {site} --keep-archives --json
1 download an4 --data-root none --base-url {site}/none
2 download an4 --data-root out --extracted copies
0 download common-voice --data-root out --language en --data-sets dev,test --extracted copies/common_voice
0 download fisher --ldc-root copies/fisher --dest-root fisher --remove-noises --keep-low-conf --json
2 download fisher --ldc-root copies/fisher --dest-root fisher --noises-to-emoji
2 download fisher --ldc-root corpus --dest-root none
3 download hifitts --data-root out2 --base-url {site} --checksums published/sums.txt
0 again --max-rejects 99
0 status out out2 fisher
"""


def scenarios() -> dict[str, str]:
    """All scenarios by name."""
    made = dict(COMMANDS)
    for name, (call, out, other) in JOBS.items():
        good = call.format(manifest="corpus/manifest.json")
        codes = {"bad_lines": 3, "bad_audio": 0, "many": 3, "replaced": 0, "inspect": 0} | CODES.get(name, {})
        made[f"{name}/life"] = LIFE.format(call=good, out=out, other=other, **codes)
        made[f"{name}/ranks"] = RANKS.format(call=good, out=out)
        inputs = ("bad_lines", "bad_audio", "many_rejects")
        calls = {f"{folder}_call": call.format(manifest=f"{folder}/manifest.json") for folder in inputs}
        made[f"{name}/broken"] = BROKEN.format(out=out, **calls, **codes)
    for name, path in KINDS.items():
        made[f"kinds/{name}"] = KIND.format(set=path, **({"verify": 0, "inspect": 0} | CODES.get(name, {})))
    for name, options in DOWNLOADS.items():
        made[f"download/{name}"] = DOWNLOAD.format(name=name, options=options)
    made["download/more"] = MORE_DOWNLOADS
    return made


CODES: dict[str, dict[str, int]] = {
    "fix-durations": {"replaced": 2},
    "filter": {"many": 0},  # it reads no audio
    "split": {"many": 0, "inspect": 2},
    "texts": {"many": 0, "inspect": 2},
    "duplicates": {"inspect": 2},
    "omnilingual": {"verify": 1},
    # a bug: inspect --json of a container does not end
    "datasets": {"inspect": 1},
    "zip": {"inspect": 1},
    "zip_deflated": {"inspect": 1},
}
"""The exit codes of calls that do not end as those of most jobs and kinds do."""
