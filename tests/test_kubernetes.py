"""The manifests for Kubernetes: valid for each supported version, closed, and of one mind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tickwheel_admin.services.metrics.definitions import QUEUED_RUNS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docker" / "kubernetes"
VERSIONS = ("1.28", "1.34")  # the oldest, and one that was new when this was written
OF_OTHERS = ("kustomize.config.k8s.io/", "keda.sh/")  # kinds that Kubernetes itself does not know

Manifest = dict[str, Any]


def manifests(path: Path) -> list[Manifest]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


ALL = {
    f"{path.relative_to(FOLDER)} {each['kind']}": each
    for path in sorted(FOLDER.rglob("*.yaml"))
    for each in manifests(path)
}
WITH_PODS = {name: each for name, each in ALL.items() if each["kind"] in ("Deployment", "Job")}


def pod_of(manifest: Manifest) -> Manifest:
    spec: Manifest = manifest["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("version", VERSIONS)
def test_each_manifest_is_valid_in_each_version(name: str, version: str) -> None:
    if not ALL[name]["apiVersion"].startswith(OF_OTHERS):
        kubernetes_validate.validate(ALL[name], version, strict=True)


def test_a_wrong_manifest_would_be_noticed() -> None:
    wrong = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"nmae": "x"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_the_kustomization_names_every_file() -> None:
    [listed] = manifests(FOLDER / "kustomization.yaml")
    there = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(listed["resources"]) == there
    if shutil.which("kubectl") is None:
        return  # nothing to install from Debian; the files were looked at above
    done = subprocess.run(
        ["kubectl", "kustomize", str(FOLDER)], capture_output=True, text=True, check=True
    )
    rendered = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert {each["metadata"].get("namespace", "tickwheel") for each in rendered} == {"tickwheel"}
    images = {box["image"] for each in rendered for box in _boxes(each)}
    assert images == {"tickwheel-admin:0.1.0", "tickwheel-executor:0.1.0"}


def _boxes(manifest: Manifest) -> list[Manifest]:
    is_pod = manifest["kind"] in ("Deployment", "Job")
    return list(pod_of(manifest)["containers"]) if is_pod else []


@pytest.mark.parametrize("name", WITH_PODS)
def test_pods_may_do_nothing_that_they_need_not(name: str) -> None:
    pod = pod_of(WITH_PODS[name])
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False, "variables such as TICKWHEEL_PORT=tcp://…"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001, "as in the images"
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for box in pod["containers"]:
        assert box["securityContext"] == {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in box["resources"]["limits"]


def test_selectors_choose_what_is_there() -> None:
    labels = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in WITH_PODS.values()
    }
    chosen = {
        "Service": lambda spec: spec["selector"],
        "PodDisruptionBudget": lambda spec: spec["selector"]["matchLabels"],
        "NetworkPolicy": lambda spec: spec["podSelector"]["matchLabels"],
        "Deployment": lambda spec: spec["selector"]["matchLabels"],
    }
    for name, each in ALL.items():
        if each["kind"] in chosen:
            assert chosen[each["kind"]](each["spec"]) in labels.values(), name


def test_autoscaling_asks_for_a_metric_that_there_is() -> None:
    hpa = ALL["autoscaling/hpa.yaml HorizontalPodAutoscaler"]
    keda = ALL["autoscaling/keda.yaml ScaledObject"]
    assert hpa["spec"]["metrics"][0]["external"]["metric"]["name"] == QUEUED_RUNS.name
    assert QUEUED_RUNS.name in keda["spec"]["triggers"][0]["metadata"]["query"]
    scaled = [each["metadata"]["name"] for each in ALL.values() if each["kind"] == "Deployment"]
    for each in (hpa, keda):
        assert each["spec"]["scaleTargetRef"]["name"] in scaled
