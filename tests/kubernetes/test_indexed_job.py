"""The Indexed Job: what a cluster requires of it, and its pods played by processes."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from prepcli.interface.commands import COMMANDS
from tests.conftest import SHORT_CORPUS, tree
from tests.support.running import prepcli

FILE = Path(__file__).parents[2] / "scripts/kubernetes/indexed_job.yaml"
UID = "3f0b2f6e-8f0a-4c39-9a52-0d7e2f0f4a11"
LABEL = "metadata.labels['batch.kubernetes.io/controller-uid']"


@pytest.fixture(scope="module")
def job() -> dict[str, Any]:
    return dict(yaml.safe_load(FILE.read_text()))


def test_what_the_cluster_requires(job: dict[str, Any]) -> None:
    """The required keys of batch/v1 Job and its rules; strict validation with kubernetes-validate passes too."""
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", job["metadata"]["name"])
    spec = job["spec"]
    assert set(spec) == {"completionMode", "completions", "parallelism", "backoffLimit", "podFailurePolicy", "template"}
    assert spec["completionMode"] == "Indexed"
    assert all(isinstance(spec[name], int) for name in ("completions", "parallelism", "backoffLimit"))
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "Never", "a podFailurePolicy requires it"
    (container,) = pod["containers"]
    assert {"name", "image", "args", "env", "resources", "volumeMounts"} == set(container)
    assert all(isinstance(word, str) for word in container["args"])
    assert all(isinstance(one.get("value", ""), str) for one in container["env"])
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    rules = spec["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in rules] == ["Ignore", "FailJob"]
    assert rules[1]["onExitCodes"] == {"containerName": container["name"], "operator": "In", "values": [2, 3]}


def test_it_says_one_thing(job: dict[str, Any]) -> None:
    spec = job["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    environ = {one["name"]: one for one in container["env"]}
    assert environ["PREPCLI_WORLD_SIZE"]["value"] == str(spec["completions"])
    assert environ["JOB_UID"]["valueFrom"]["fieldRef"]["fieldPath"] == LABEL
    workers = container["args"][container["args"].index("--num-workers") + 1]
    assert workers == container["resources"]["requests"]["cpu"]
    assert container["args"][0] in {command.name for command in COMMANDS}


def test_its_pods(job: dict[str, Any], tmp_path: Path) -> None:
    """Each pod's environment and arguments, as the controller makes them; the second one is evicted and comes back."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    data = {"/data/train.json": SHORT_CORPUS / "manifest.json", "/data/tarred": tmp_path / "out", "64": "3", "8": "1"}
    words = [UID if word == "$(JOB_UID)" else data.get(word, word) for word in container["args"]]
    environ = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    for index in (0, 1, 1, 2, 3):
        done = prepcli(*words, environ=environ | {"JOB_COMPLETION_INDEX": str(index)})
        assert done.code == 0, done.err
    prepcli("manifest-to-tarred", SHORT_CORPUS / "manifest.json", tmp_path / "alone", "--num-shards", 3)
    assert tree(tmp_path / "out") == tree(tmp_path / "alone")
    assert prepcli("status", tmp_path / "out").code == 0
