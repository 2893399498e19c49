"""Checks names of pretrained models, and finds files of packages, without network and without importing packages."""

import difflib
import importlib.util
import os
import re
from pathlib import Path

from prepcli.tokenizers.hub import is_hub_name

_OTHER_FILES = (".ckpt", ".pt", ".pth", ".onnx", ".safetensors", ".bin")
_NOT_OF_NEMO = {"EncDecSpeakerLabelModel": ("resemblyzer",)}
"""By NeMo class: the names of models that are not NeMo's, but that the same option accepts."""
_MAX_SHOWN = 8
"""Maximum number of names in a message."""
_LISTED = re.compile(r'pretrained_model_name="([^"]+)"')


def problem_of(name: str, model_class: str, collection: str) -> str | None:
    """Return the reason why there is no pretrained model of this name.

    None if there is one, or if only a download could show whether there is one.

    A name without a slash must be in the list of `model_class` in `nemo.collections.<collection>.models`; `owner/name`
    is on Hugging Face's hub.
    """
    if not is_hub_name(name) or name.endswith(_OTHER_FILES):
        return "there is no such file, and a name is one of NeMo's or owner/name"
    if "/" in name:
        if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE") and not _is_downloaded(name):
            return "HF_HUB_OFFLINE is set, and the model is not in the cache of this machine"
        return None
    listed = listed_models(model_class, collection)
    if not listed or name in listed:
        return None
    close = difflib.get_close_matches(name, [*listed, *_NOT_OF_NEMO.get(model_class, ())], 1, 0.6)
    some = ", ".join(listed[:_MAX_SHOWN]) + (f" and {len(listed) - _MAX_SHOWN} more" if listed[_MAX_SHOWN:] else "")
    hint = f"did you mean {close[0]}?" if close else f"it has {some}"
    return f"NeMo has no {model_class} of this name; {hint}"


def listed_models(model_class: str, collection: str) -> list[str]:
    """Return the names of the pretrained models of a NeMo class; empty if NeMo is missing or lacks the class.

    The names are read from NeMo's source files, because importing NeMo takes ten seconds. A class without a list, such
    as `ASRModel`, has the names of all classes of the collection.
    """
    folder = file_of_package("nemo", f"collections/{collection}/models")
    files = sorted(folder.glob("*.py")) if folder else []
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    own = next((text for text in texts if f"class {model_class}(" in text), None)
    return [] if own is None else _LISTED.findall(own) or _LISTED.findall("\n".join(texts))


def file_of_package(package: str, name: str) -> Path | None:
    """Return a file or folder of an installed package, which is not imported; None if it is not there."""
    spec = importlib.util.find_spec(package)
    places = (spec.submodule_search_locations or ()) if spec else ()
    return next((path for place in places if (path := Path(place, name)).exists()), None)


def _is_downloaded(name: str) -> bool:
    home = os.environ.get("HF_HOME", os.path.expanduser("~/.cache/huggingface"))
    cache = os.environ.get("HF_HUB_CACHE", os.path.join(home, "hub"))
    return os.path.isdir(os.path.join(cache, f"models--{name.replace('/', '--')}"))
