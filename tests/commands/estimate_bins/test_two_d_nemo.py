"""The same bins as what NeMo's own readers, tokenizers, prompts and sampler constraints make of the same data."""

import gzip
import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from prepcli.commands.estimate_bins.nested import nested_bins, place
from prepcli.manifest.loader_config import write_loader_config
from prepcli.tokenizers.counting import TokenizerSpec
from tests.commands.estimate_bins.asking import bins_2d, token_bins
from tests.commands.estimate_bins.test_nested import by_the_book
from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.running import prepcli
from tests.support.tokenizer_models import awkward_texts, corpus_texts, train_hf, train_sentencepiece

pytestmark = pytest.mark.nemo

LANGS = ("en", "de", "fr")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tokenizers, and manifests of all kinds of data."""
    pytest.importorskip("nemo.collections.common.data.lhotse.dataloader")
    from nemo.collections.common.tokenizers import CanaryTokenizer

    folder = tmp_path_factory.mktemp("nemo")
    for kind in ("bpe", "unigram", "char"):
        train_sentencepiece(folder / f"{kind}.model", model_type=kind)
    (folder / "hf").mkdir()
    train_hf(folder / "hf" / "tokenizer.json")
    CanaryTokenizer.build_special_tokenizer(["transcribe", "translate", *LANGS], folder / "special")
    rng = random.Random(0)
    texts = [*awkward_texts(600), *corpus_texts() * 10]
    rng.shuffle(texts)
    lines: list[dict[str, Any]] = [
        {
            "audio_filepath": f"{i}.wav",
            "duration": round(min(40.0, rng.lognormvariate(1.3, 0.7)), 4),
            "text": text,
            "lang": LANGS[i % 3],
            "source_lang": "en",
            "target_lang": LANGS[i % 3],
            "task": "asr",
            "pnc": "yes",
        }
        for i, text in enumerate(texts)
    ]
    lines[5]["text"] *= 40
    write_lines(folder / "m.json", lines)
    write_lines(folder / "skewed.json", [line | {"duration": 30.0} if i % 10 else line for i, line in enumerate(lines)])
    write_lines(folder / "silent.json", [line | {"text": ""} if i % 3 else line for i, line in enumerate(lines)])
    write_lines(folder / "few.json", [line | {"duration": [1.25, 7.5][i % 2]} for i, line in enumerate(lines)])
    entry = f"{{type: nemo, manifest_filepath: {folder}/"
    (folder / "cfg.yaml").write_text(
        f"- {entry}m.json, weight: 0.7, tags: {{origin: x}}}}\n"
        f"- {{type: group, weight: 0.3, input_cfg: [{entry}skewed.json, weight: 1, text_field: task}}]}}\n"
    )
    return folder


def nemo_lengths(
    spec: str, tokenizer: Any, prompt: Any = None, limits: tuple[float, float] = (0, 1e9)
) -> tuple[Any, Any]:
    """Durations and numbers of tokens, as NeMo's samplers measure them."""
    from nemo.collections.common.data.lhotse.cutset import read_cutset_from_config
    from nemo.collections.common.data.lhotse.dataloader import LhotseDataLoadingConfig, tokenize
    from nemo.collections.common.data.lhotse.sampling import DurationFilter, FixedBucketBatchSizeConstraint2D
    from nemo.collections.common.data.prompt_fn import apply_prompt_format_fn
    from nemo.collections.common.tokenizers.aggregate_tokenizer import TokenizerWrapper
    from omegaconf import OmegaConf

    config = OmegaConf.merge(
        OmegaConf.structured(LhotseDataLoadingConfig), OmegaConf.from_dotlist([spec, "metadata_only=true"])
    )
    cuts = read_cutset_from_config(config)[0].filter(DurationFilter(*limits))
    constraint = FixedBucketBatchSizeConstraint2D([(0.0, 0.0)], [0])
    lengths = []
    for cut in cuts:
        if prompt is not None:
            cut.supervisions[0].tokens = apply_prompt_format_fn(cut, prompt)["input_ids"]
            lengths.append(constraint.measure_length(cut))
        else:
            lengths.append(constraint.measure_length(tokenize(cut, TokenizerWrapper(tokenizer))))
    durations, tokens = zip(*lengths, strict=True)
    return np.array(durations, np.float32), np.array(tokens, np.int32)


def nemo_tokenizer(*paths: Path) -> Any:
    from nemo.collections.common.tokenizers import AggregateTokenizer, AutoTokenizer, SentencePieceTokenizer

    loaded = [AutoTokenizer(str(p), use_fast=True) if p.is_dir() else SentencePieceTokenizer(str(p)) for p in paths]
    return loaded[0] if len(loaded) == 1 else AggregateTokenizer(dict(zip(LANGS, loaded, strict=True)))


def same_bins(ours: Any, theirs: tuple[list[tuple[float, int]], list[float]]) -> None:
    assert len(ours.bucket_duration_bins) == len(theirs[0])
    for (size, limit), (other_size, other_limit) in zip(ours.bucket_duration_bins, theirs[0], strict=True):
        assert size == pytest.approx(other_size, abs=0.01)
        assert limit == other_limit
    assert ours.max_tps == pytest.approx(theirs[1], abs=0.0051)


@pytest.mark.parametrize("manifest", ["m.json", "skewed.json", "silent.json", "few.json"])
@pytest.mark.parametrize(
    "tokenizers", [("bpe.model",), ("unigram.model",), ("bpe.model", "unigram.model", "char.model")]
)
def test_bins_of_manifests(folder: Path, manifest: str, tokenizers: tuple[str, ...]) -> None:
    paths = [folder / name for name in tokenizers]
    lengths = nemo_lengths(f"manifest_filepath={folder / manifest}", nemo_tokenizer(*paths))
    spec = TokenizerSpec(tuple(map(str, paths)), LANGS[: len(paths)])
    for num_buckets, sub_buckets in ((30, 2), (2, 5), (100, 3)):
        options = {"num_buckets": num_buckets, "sub_buckets": sub_buckets}
        ours = bins_2d(folder / manifest, spec, **options)
        same_bins(ours, by_the_book(*lengths, num_buckets, sub_buckets, 4.0, 3))
    assert ours.num_tokens == lengths[1].sum()


def test_bins_of_other_inputs(folder: Path, tmp_path: Path) -> None:
    bpe = folder / "bpe.model"
    tokenizer = nemo_tokenizer(bpe)
    options = {"num_buckets": 10, "sub_buckets": 3, "min_duration": 2, "max_duration": 35}
    lengths = nemo_lengths(f"input_cfg={folder}/cfg.yaml", tokenizer, limits=(2, 35))
    ours = bins_2d(folder / "cfg.yaml", TokenizerSpec((str(bpe),)), **options)
    # A limit that is given is the last edge, whatever the longest example.
    same_bins(ours, by_the_book(*lengths, 10, 3, 4.0, 3, largest=35))
    lengths = nemo_lengths(f"manifest_filepath={folder}/m.json", nemo_tokenizer(folder / "hf"))
    ours = bins_2d(folder / "m.json", TokenizerSpec((str(folder / "hf"),)), num_buckets=10)
    same_bins(ours, by_the_book(*lengths, 10, 2, 4.0, 3))
    (tmp_path / "shar").mkdir()
    cuts = []
    for i, line in enumerate(read_lines(folder / "m.json")):
        recording = {"id": f"r{i}", "sampling_rate": 1000, "num_samples": 99000, "duration": 99.0, "channel_ids": [0]}
        recording["sources"] = [{"type": "shar", "channels": [0], "source": ""}]
        supervision = {"id": f"s{i}", "recording_id": f"r{i}", "start": 0, "duration": line["duration"], "channel": 0}
        cut = {"id": f"c{i}", "type": "MonoCut", "start": 0, "duration": line["duration"], "channel": 0}
        more = {"supervisions": [supervision | {"text": line["text"]}], "recording": recording}
        cuts.append(json.dumps(cut | more))
    (tmp_path / "shar" / "cuts.000000.jsonl.gz").write_bytes(gzip.compress(("\n".join(cuts) + "\n").encode()))
    lengths = nemo_lengths(f"shar_path={tmp_path}/shar", tokenizer)
    ours = bins_2d(tmp_path / "shar", TokenizerSpec((str(bpe),)), num_buckets=10)
    same_bins(ours, by_the_book(*lengths, 10, 2, 4.0, 3))


def test_bins_in_canarys_prompt(folder: Path) -> None:
    from nemo.collections.common.prompts import PromptFormatter
    from nemo.collections.common.tokenizers import CanaryTokenizer, SentencePieceTokenizer

    paths = [folder / "special" / "tokenizer.model", *(folder / f"{kind}.model" for kind in ("bpe", "unigram", "char"))]
    langs = ("spl_tokens", *LANGS)
    loaded = {lang: SentencePieceTokenizer(str(path)) for lang, path in zip(langs, paths, strict=True)}
    prompt = PromptFormatter.resolve("canary")(CanaryTokenizer(loaded))
    lengths = nemo_lengths(f"manifest_filepath={folder}/m.json", None, prompt)
    slots = "[{'role':'user','slots':{'source_lang':'en','target_lang':'en','task':'asr','pnc':'yes'}}]"
    spec = TokenizerSpec(tuple(map(str, paths)), langs, prompt_format="canary", prompt=slots)
    ours = bins_2d(folder / "m.json", spec, num_buckets=10, sub_buckets=3)
    same_bins(ours, by_the_book(*lengths, 10, 3, 4.0, 3))
    # Slots stand in for fields that records do not have, where NeMo stops.
    bare = [{k: v for k, v in line.items() if k not in ("task", "pnc")} for line in read_lines(folder / "m.json")]
    write_lines(folder / "bare.json", bare)
    assert bins_2d(folder / "bare.json", spec, num_buckets=3).num_tokens == ours.num_tokens
    write_lines(folder / "other.json", [*bare[:30], bare[0] | {"lang": "it"}, bare[0] | {"task": "sing"}])
    other = bins_2d(folder / "other.json", spec, num_buckets=3)
    assert (other.num_examples, other.num_rejected) == (30, 2)
    assert "other.json:31: the prompt cannot be made" in str(other.first_rejected)


def test_examples_go_where_nemo_puts_them(folder: Path) -> None:
    from nemo.collections.common.data.lhotse.sampling import find_smallest_bucket

    durations, tokens = nemo_lengths(f"manifest_filepath={folder}/m.json", nemo_tokenizer(folder / "bpe.model"))
    pairs = nested_bins(durations, tokens, 12, 3, 2.0, 3).pairs
    durations = durations.astype(np.float64) * 1.01  # beyond the last edge too
    expected = [
        find_smallest_bucket(np.asarray(pairs), (float(duration), int(count)))
        for duration, count in zip(durations, tokens, strict=True)
    ]
    assert place(durations, tokens, pairs).tolist() == [-1 if one is None else one for one in expected]
    assert None in expected


@pytest.fixture(scope="module")
def texts(folder: Path) -> Path:
    """An `input_cfg` of pairs, and one of conversations."""
    rng = random.Random(1)
    corpus = corpus_texts()
    for name in ("source", "target", "questions"):
        lines = [" ".join(rng.choices(corpus, k=rng.randint(1, 4))) for _ in range(1 if name == "questions" else 500)]
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    audio = read_lines(MINI_CORPUS / "manifest.json")
    talks = []
    for i in range(120):
        one = rng.choice(audio)
        spoken = {"from": "User", "type": "audio", "value": str(MINI_CORPUS / one["audio_filepath"])}
        spoken["duration"] = round(one["duration"] - 0.1, 2)
        asked = {"from": "User", "type": "text", "value": rng.choice(corpus)}
        said = {"from": "Assistant", "type": "text", "value": rng.choice(corpus)}
        talks.append(
            {"id": str(i), "conversations": [[asked, spoken, said], [asked, said], [asked, said, spoken, said]][i % 3]}
        )
    write_lines(folder / "talks.jsonl", talks)
    (folder / "pairs.yaml").write_text(
        f"- {{type: txt_pair, source_paths: {folder}/source.txt, target_paths: {folder}/target.txt, "
        f"questions_path: {folder}/questions.txt}}\n- {{type: txt, paths: {folder}/target.txt, language: en}}\n"
    )
    (folder / "asked.yaml").write_text(
        f"- {{type: txt_pair, source_paths: {folder}/source.txt, target_paths: {folder}/target.txt, "
        f"questions_path: {folder}/questions.txt, source_language: en, target_language: Italiano, "
        "tags: {extra_prompt: 'one two three'}}\n"
    )
    (folder / "mixed.yaml").write_text(
        f"- {{type: group, input_cfg: [{{type: nemo, manifest_filepath: {folder}/m.json}}], weight: 1, "
        "token_equivalent_duration: 0.5, tags: {context: 'Say it.'}}\n"
        f"- {{type: multimodal_conversation, manifest_filepath: {folder}/talks.jsonl, weight: 2, "
        "audio_locator_tag: '<a>'}\n"
    )
    (folder / "talks.yaml").write_text(
        f"- {{type: multimodal_conversation, manifest_filepath: {folder}/talks.jsonl, audio_locator_tag: '<a>', "
        "token_equivalent_duration: 0.08, tags: {context: 'Listen.'}}\n"
    )
    return folder


def nemo_examples(cfg: Path, model: Path, prompt_format: str | None, *more: str) -> list[Any]:
    from nemo.collections.common.data.lhotse.cutset import read_cutset_from_config
    from nemo.collections.common.data.lhotse.dataloader import (
        LhotseDataLoadingConfig,
        tokenize,
        tokenize_with_prompt,
    )
    from nemo.collections.common.prompts import PromptFormatter
    from nemo.collections.common.tokenizers.aggregate_tokenizer import TokenizerWrapper
    from omegaconf import OmegaConf

    config = OmegaConf.merge(
        OmegaConf.structured(LhotseDataLoadingConfig),
        OmegaConf.from_dotlist([f"input_cfg={cfg}", "force_finite=true", "metadata_only=true", *more]),
    )
    tokenizer = nemo_tokenizer(model)
    if prompt_format is None:
        return [tokenize(cut, TokenizerWrapper(tokenizer)) for cut in read_cutset_from_config(config)[0]]
    prompt = PromptFormatter.resolve(prompt_format)(tokenizer)
    cuts = read_cutset_from_config(config)[0]
    return list(cuts.map(partial(tokenize_with_prompt, tokenizer=tokenizer, prompt_format=prompt), apply_fn=None))


@pytest.mark.parametrize("cfg", ["pairs.yaml", "talks.yaml"])
def test_bins_of_texts_and_conversations(texts: Path, cfg: str) -> None:
    from lhotse.dataset.sampling.dynamic_bucketing import estimate_duration_buckets
    from nemo.collections.common.data.lhotse.sampling import (
        MultimodalFixedBucketBatchSizeConstraint2D,
        MultimodalSamplingConstraint,
    )

    model = texts / "bpe.model"
    examples = nemo_examples(texts / cfg, model, "plain")
    spec = TokenizerSpec((str(model),), prompt_format="plain")
    for total in (False, True, None):  # without the option, NeMo's script measures the total
        constraint = MultimodalSamplingConstraint(
            token_equivalent_duration=0.08, measure_total_length=total is not False
        )
        expected = estimate_duration_buckets(examples, 10, constraint=constraint)
        options = {"num_buckets": 10, "measure_total_length": total}
        assert token_bins(texts / cfg, spec, **options).bucket_duration_bins == expected
    measure = MultimodalFixedBucketBatchSizeConstraint2D([(0.0, 0.0)], [0], token_equivalent_duration=0.08)
    lengths = np.array([measure.measure_length(example) for example in examples])
    pairs, ratios = by_the_book(lengths[:, 0], lengths[:, 1].astype(np.int32), 10, 3, 6.0, None)
    ours = token_bins(texts / cfg, spec, num_buckets=10, sub_buckets=3)
    assert ours.bucket_duration_bins == pairs
    assert ours.max_tpt == pytest.approx(ratios, abs=0.0011)


def measured(examples: list[Any], constraint: Any) -> Any:
    return np.array([constraint.measure_length(example) for example in examples])


@pytest.mark.parametrize("prompt_format", ["t5nmt", "llama2"])
def test_languages_and_questions_in_prompts(texts: Path, prompt_format: str) -> None:
    """T5's prompt holds the language of the target, and that of Llama 2 the question in a turn of its own."""
    from nemo.collections.common.data.lhotse.sampling import MultimodalFixedBucketBatchSizeConstraint2D

    model = texts / "bpe.model"
    expected = measured(
        nemo_examples(texts / "asked.yaml", model, prompt_format),
        MultimodalFixedBucketBatchSizeConstraint2D([(0.0, 0.0)], [0], token_equivalent_duration=0.08),
    )
    spec = TokenizerSpec((str(model),), prompt_format=prompt_format)
    ours = token_bins(texts / "asked.yaml", spec, num_buckets=5, sub_buckets=2)
    assert ours.inputs.tolist() == expected[:, 0].tolist()
    assert ours.outputs.tolist() == expected[:, 1].tolist()


def test_audio_among_conversations(texts: Path) -> None:
    """Cuts are measured by the duration of a token that the training config says, not by that of their entry."""
    from nemo.collections.common.data.lhotse.sampling import (
        DurationFilter,
        MultimodalFixedBucketBatchSizeConstraint2D,
        MultimodalSamplingConstraint,
        TokenCountFilter,
        TokenPerTokenFilter,
    )

    model, cfg = texts / "bpe.model", texts / "mixed.yaml"
    spec = TokenizerSpec((str(model),), prompt_format="plain")
    for seconds in (0.08, 0.3):
        more = f"token_equivalent_duration={seconds}", "force_iterable_dataset=true"
        examples = nemo_examples(cfg, model, "plain", *more)
        (texts / "train.yaml").write_text(
            f"model: {{train_ds: {{token_equivalent_duration: {seconds}, input_cfg: {cfg}}}}}"
        )
        for total in (False, True):
            constraint = MultimodalSamplingConstraint(token_equivalent_duration=seconds, measure_total_length=total)
            options = {"num_buckets": 10, "measure_total_length": total}
            ours = token_bins(texts / "train.yaml", spec, **options)
            assert sorted(ours.inputs.tolist()) == sorted(measured(examples, constraint).tolist())
        constraint = MultimodalFixedBucketBatchSizeConstraint2D([(0.0, 0.0)], [0], token_equivalent_duration=seconds)
        ours = token_bins(texts / "train.yaml", spec, num_buckets=10, sub_buckets=3)
        lengths = sorted(zip(ours.inputs.tolist(), ours.outputs.tolist(), strict=True))
        assert lengths == sorted(map(tuple, measured(examples, constraint).tolist()))
    filters = DurationFilter(1, 9), TokenCountFilter(10, 200, True), TokenPerTokenFilter(-1, 0.7)
    kept = [one for one in examples if all(keeps(one) for keeps in filters)]
    limits = "min_duration: 1, max_duration: 9, min_tokens: 10, max_tokens: 200, max_tpt: 0.7"
    (texts / "train.yaml").write_text(f"train_ds: {{{limits}, token_equivalent_duration: 0.3, input_cfg: {cfg}}}")
    ours = token_bins(texts / "train.yaml", spec, num_buckets=10)
    constraint = MultimodalSamplingConstraint(token_equivalent_duration=0.3, measure_total_length=True)
    assert sorted(ours.inputs.tolist()) == sorted(measured(kept, constraint).tolist())
    assert [len(kept) < sum(map(keeps, examples)) for keeps in filters] == [True] * 3


def test_audio_alone_in_tokens(folder: Path) -> None:
    from nemo.collections.common.data.lhotse.sampling import MultimodalSamplingConstraint

    model, cfg = folder / "bpe.model", folder / "cfg.yaml"
    examples = nemo_examples(cfg, model, None)
    for total in (False, True):
        constraint = MultimodalSamplingConstraint(token_equivalent_duration=0.08, measure_total_length=total)
        ours = token_bins(cfg, TokenizerSpec((str(model),)), measure_total_length=total)
        assert sorted(ours.inputs.tolist()) == sorted(measured(examples, constraint).tolist())


def test_nemo_takes_the_configs(folder: Path, texts: Path, tmp_path: Path) -> None:
    from nemo.collections.common.data.lhotse.dataloader import LhotseDataLoadingConfig, determine_bucket_duration_bins
    from nemo.collections.common.data.lhotse.sampling import FixedBucketBatchSizeConstraint2D
    from omegaconf import OmegaConf

    model = folder / "bpe.model"
    for number, command in enumerate(
        (
            ["estimate-bins", folder / "m.json"],
            ["estimate-bins-2d", folder / "m.json", "-t", model],
            ["estimate-token-bins", texts / "pairs.yaml", "-t", model, "-m"],
            ["estimate-token-bins", texts / "pairs.yaml", "-t", model, "-s", 2],
        )
    ):
        path = tmp_path / f"{number}.yaml"
        done = prepcli(*command, "-b", 5, "-q", "--write-config", path)
        assert done.code == 0, done.err
        config = OmegaConf.merge(OmegaConf.structured(LhotseDataLoadingConfig), OmegaConf.load(path))
        bins = determine_bucket_duration_bins(config)
        assert [list(one) if isinstance(one, tuple) else one for one in bins] == yaml.safe_load(done.out)
        assert bins == sorted(bins)
        if command[0] == "estimate-bins-2d":
            ratios = OmegaConf.to_container(config.max_tps)
            constraint = FixedBucketBatchSizeConstraint2D(bins, [1] * len(bins), max_ratio=ratios)
            assert constraint.bucketing_2d_enabled
    (note,) = write_loader_config(path, yaml.safe_load(path.read_text()))
    assert "it was not changed" in note
