"""A sandbox without a network for tests: a registry, its controllers and a clock that moves only when told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from kubenexus.common.kube.resources import NODES, PODS, Resource
from kubenexus.common.sandbox.controllers import ControllerManager
from kubenexus.common.sandbox.registry import Registry
from kubenexus.common.vocabulary import SIMULATED_RUN_TIME

Obj = dict[str, Any]


class Cluster:
    """A registry, its controllers and one node; `settle` lets them do all there is to do at this moment."""

    def __init__(self) -> None:
        self.now = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
        self.registry = Registry(clock=lambda: self.now, seed=1)
        self.manager = ControllerManager(self.registry, lambda: self.now)
        allocatable = {"cpu": "8", "memory": "16Gi", "pods": "20"}
        self.create(NODES, {"metadata": {"name": "n"}, "status": {"allocatable": allocatable}})

    def create(self, res: Resource, obj: Obj) -> Obj:
        return self.registry.create(res, "default" if res.namespaced else None, obj)

    def get(self, res: Resource, name: str) -> Obj:
        return self.registry.get(res, "default", name)

    def status(self, res: Resource, name: str) -> Obj:
        found: Obj = self.get(res, name).get("status") or {}
        return found

    def conditions(self, res: Resource, name: str) -> dict[str, str]:
        found = self.status(res, name).get("conditions") or []
        return {each["type"]: each.get("reason", "") for each in found if each["status"] == "True"}

    def names(self, res: Resource = PODS) -> list[str]:
        return [each["metadata"]["name"] for each in self.registry.list(res, "default")]

    def phases(self) -> list[str]:
        return [each["status"]["phase"] for each in self.registry.list(PODS, "default")]

    def settle(self, *, bind: bool = True) -> None:
        """Run the controllers, bind every pod that waits for it, and so on until nothing moves."""
        while True:
            self.manager.run_until_idle()
            waiting = [
                each["metadata"]["name"]
                for each in self.registry.list(PODS, "default", fields="spec.nodeName=")
                if "deletionTimestamp" not in each["metadata"]
            ]
            if not bind or not waiting:
                return
            for name in waiting:
                self.registry.bind("default", name, {"metadata": {"name": name}, "target": {"name": "n"}})

    def wait(self, seconds: float, *, bind: bool = True) -> None:
        self.now += timedelta(seconds=seconds)
        self.settle(bind=bind)

    def fail(self, name: str) -> None:
        """As a kubelet reports it when a container exits with an error."""
        self.registry.patch(PODS, "default", name, {"status": {"phase": "Failed"}}, subresource="status")


def template(labels: Obj | None = None, run_time: int | None = None, image: str = "i", **spec: Any) -> Obj:
    meta: Obj = {"labels": labels or {"app": "a"}}
    if run_time is not None:
        meta["annotations"] = {SIMULATED_RUN_TIME: str(run_time)}
    return {"metadata": meta, "spec": {"containers": [{"name": "c", "image": image}]} | spec}


def job(run_time: int | None = 5, **spec: Any) -> Obj:
    made = {"template": template(run_time=run_time, restartPolicy="Never")} | spec
    return {"metadata": {"name": "j"}, "spec": made}


def replicated(name: str = "d", replicas: int = 3, image: str = "i", **spec: Any) -> Obj:
    selector = {"matchLabels": {"app": "a"}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template(image=image)} | spec,
    }
