"""What NeMo's models say of their batches: properties are read from NeMo's source, for importing all takes long."""

from __future__ import annotations

import ast
import importlib.util
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from prepcli.errors import UsageError
from prepcli.models.batch_schemas import schema_of
from tests.support.lazy import lazy

pytestmark = pytest.mark.torch

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

PROPERTY = "oomptimizer_schema"
VOCABULARY = 50


@cache
def properties() -> dict[str, ast.FunctionDef]:
    """The property of each class of the installed NeMo that has one, by the name of the class."""
    spec = importlib.util.find_spec("nemo")
    if spec is None or not spec.submodule_search_locations:
        return {}
    found = {}
    for path in sorted(Path(spec.submodule_search_locations[0], "collections").rglob("models/*.py")):
        text = path.read_text(encoding="utf-8")
        kinds = [one for one in ast.parse(text).body if isinstance(one, ast.ClassDef)] if PROPERTY in text else []
        for kind in kinds:
            own = [one for one in kind.body if isinstance(one, ast.FunctionDef) and one.name == PROPERTY]
            if own:
                found[kind.name] = own[0]
    return found


class Batch(dict[str, Any]):
    """Stands for all classes of batches."""


def stub_of(name: str) -> Any:
    """A model whose property is that of NeMo's class `name`, with stand-ins for what it uses."""
    kinds = {kind: type(kind, (), {}) for kind in ("AudioSignal", "LengthsType", "LabelsType", "MaskType")}
    batches = dict.fromkeys(("PromptedAudioToTextMiniBatch", "AudioToTextEOUBatch"), Batch)
    space: dict[str, Any] = {
        **kinds,
        **batches,
        "ssl_dataset": SimpleNamespace(AudioNoiseBatch=Batch),
        "NeuralType": lambda axes, elements: SimpleNamespace(elements_type=elements),
    }
    exec(compile(ast.Module([properties()[name]], []), name, "exec"), space)
    more = {"audio_locator_tag_id": 7} if name.startswith("SALM") else {}
    values = {"tokenizer": SimpleNamespace(vocab_size=VOCABULARY), "text_vocab_size": VOCABULARY, "sample_rate": 8000}
    return type(name, (), {PROPERTY: space[PROPERTY], **values, **more})()


def tensors(batch: Any) -> dict[Any, Any]:
    return dict(enumerate(batch)) if isinstance(batch, tuple) else dict(batch)


def test_every_schema_of_the_installed_nemo() -> None:
    if not properties():
        pytest.skip("NeMo is not installed")
    shapes: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for name in properties():
        if name == "DuplexEARTTS":
            with pytest.raises(UsageError, match="is not implemented in this NeMo"):
                schema_of(stub_of(name))
            continue
        schema = schema_of(stub_of(name))
        lengths = schema.lengths(2.5, None, 12.0)
        has_text = any(one.kind == "labels" for one in schema.items)
        assert lengths == (20000, 30 if has_text else 30 * 8000)
        batch = tensors(schema.batch(3, lengths, "cpu"))
        shapes[name] = {tuple(one.shape) for one in batch.values()}
        assert (3, 20000) in shapes[name], name
        assert all(one.max() < VOCABULARY for one in batch.values() if one.dtype == torch.long and one.dim() == 2)
        if name.startswith("SALM"):
            assert ((batch["input_ids"] == 7).sum(1) == 1).all()  # one audio in each text
    assert shapes["ASRModel"] == {(3, 20000), (3,), (3, 30)}
    assert shapes["EncDecMultiTaskModel"] == {(3, 20000), (3,), (3, 30), (0,)}
    assert {"SALM", "DuplexS2SModel", "DuplexSTTModel", "EncDecDenoiseMaskedTokenPredModel"} <= set(shapes)


def test_lengths_are_those_of_nemo() -> None:
    if not properties():
        pytest.skip("NeMo is not installed")
    schema = schema_of(stub_of("ASRModel"))
    assert schema.lengths(1.01, None, 12.0) == (8080, 13)  # ceil(12.12)
    assert schema.lengths(1.01, 40, 12.0) == (8080, 40)
    assert schema.lengths(0.0000625, None, 1.0)[0] == 1  # half a sample is rounded up


def test_a_model_that_says_nothing() -> None:
    with pytest.raises(UsageError, match="a model of the class object has no oomptimizer_schema"):
        schema_of(object())


def test_a_model_of_characters() -> None:
    """It has no tokenizer, which the schema asks for."""
    if not properties():
        pytest.skip("NeMo is not installed")
    model = stub_of("ASRModel")
    type(model).tokenizer = None
    model.decoder = SimpleNamespace(vocabulary=list("abc"))
    batch = schema_of(model).batch(4, (100, 9), "cpu")
    assert batch[2].max() < 3
