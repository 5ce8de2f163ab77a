"""Pods and pod templates."""

import copy
from typing import Any

from kubenexus.common.sandbox.validation.field import Field, same
from kubenexus.common.sandbox.validation.filling import at, drop, items
from kubenexus.common.sandbox.validation.grammar import (
    dns_label,
    dns_subdomain,
    env_name,
    port_name,
    port_number,
    qualified_name,
)
from kubenexus.common.sandbox.validation.meta import annotations, labels
from kubenexus.common.sandbox.validation.placement import placement
from kubenexus.common.sandbox.validation.resources import node_amount, pod_requirements, requirements

MAX_INT32 = 2**31 - 1
_CHANGEABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
_NO_SOURCE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_SIDECAR_ONLY = "may not be set for init containers without restartPolicy=Always"


def pod(new: Field, old: Field) -> None:
    """A pod; on an update nearly all of its spec stays as it is."""
    spec = new["spec"]
    pod_spec(spec)
    if old.present:
        _changes(spec, old["spec"])
        return
    if spec["ephemeralContainers"].items():
        spec["ephemeralContainers"].forbidden("cannot be set on create")
    if spec["nodeName"].text() and spec["schedulingGates"].items():
        spec["nodeName"].forbidden("cannot be set until all schedulingGates have been cleared")


def pod_status(new: Field, old: Field) -> None:
    """The status of a pod, as its kubelet or scheduler writes it."""
    status, before = new["status"], old["status"]
    for condition in status["conditions"].items():
        for problem in qualified_name(condition["type"].text()):
            condition["Type"].invalid(problem, condition["type"].text())
    nominated = status["nominatedNodeName"]
    if nominated.text() and nominated.text() != before["nominatedNodeName"].text():
        nominated.follow(dns_subdomain)
        if old["spec"]["nodeName"].text():
            nominated.forbidden("may not be set on pods that are already bound to a node")
    status["qosClass"].keep(before["qosClass"])


def pod_template(template: Field) -> None:
    """The template of a workload's pods."""
    labels(template["metadata"]["labels"])
    annotations(template["metadata"]["annotations"])
    pod_spec(template["spec"])
    if template["spec"]["ephemeralContainers"].items():
        template["spec"]["ephemeralContainers"].forbidden("ephemeral containers not allowed in pod template")


def pod_spec(spec: Field) -> None:
    """What holds for every pod spec, in pods and in templates."""
    volumes = _volumes(spec["volumes"])
    claims = _claims(spec["resourceClaims"])
    containers, inits = spec["containers"], spec["initContainers"]
    if not containers.items():
        containers.required()
    for container in containers.items() + inits.items():
        _container(container, volumes, claims)
    for container in inits.items():
        _init_container(container)
    _names(containers.items(), inits.items())
    pod_requirements(spec)
    spec["restartPolicy"].choose("Always", "OnFailure", "Never")
    spec["dnsPolicy"].choose("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    placement(spec)
    _references(spec)
    for name, amount in spec["overhead"].entries():
        node_amount(name, amount)


def _references(spec: Field) -> None:
    """Names of other things, and numbers."""
    for name in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        if spec[name].text():
            spec[name].follow(dns_subdomain)
    for name in ("hostname", "subdomain"):
        if spec[name].text():
            spec[name].follow(dns_label)
    if spec["activeDeadlineSeconds"].present:
        spec["activeDeadlineSeconds"].within(1, MAX_INT32)
    spec["preemptionPolicy"].choose("PreemptLowerPriority", "Never", optional=True)


def _container(field: Field, volumes: set[str], claims: set[str]) -> None:
    if field["name"].text():
        field["name"].follow(dns_label)
    else:
        field["name"].required()
    if not field["image"].text():
        field["image"].required()
    field["terminationMessagePolicy"].choose("File", "FallbackToLogsOnError")
    _ports(field["ports"])
    for variable in field["env"].items():
        _variable(variable)
    for mount in field["volumeMounts"].items():
        _mount(mount, volumes)
    _distinct_mounts(field["volumeMounts"])
    field["imagePullPolicy"].choose("Always", "IfNotPresent", "Never")
    requirements(field["resources"], claims)


def _init_container(field: Field) -> None:
    if field["restartPolicy"].text() not in ("", "Always", "OnFailure", "Never"):
        field["restartPolicy"].unsupported(("Always", "Never", "OnFailure"))
    if field["restartPolicy"].text() != "Always":
        for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if field[name].present:
                field[name].forbidden(_SIDECAR_ONLY)


def _names(containers: list[Field], inits: list[Field]) -> None:
    """Containers and init containers have distinct names."""
    seen = set()
    for container in containers + inits:
        name = container["name"].text()
        if name and name in seen:
            container["name"].duplicate()
        seen.add(name)


def _ports(field: Field) -> None:
    names = set()
    for port in field.items():
        name = port["name"].text()
        if name:
            port["name"].follow(port_name)
            if name in names:
                port["name"].duplicate()
            names.add(name)
        if not port["containerPort"].integer():
            port["containerPort"].required()
        for number in ("containerPort", "hostPort"):
            if port[number].integer():
                for problem in port_number(port[number].integer()):
                    port[number].invalid(problem)
        port["protocol"].choose("SCTP", "TCP", "UDP")


def _variable(variable: Field) -> None:
    if not variable["name"].text():
        variable["name"].required()
    else:
        variable["name"].follow(env_name)
    source = variable["valueFrom"]
    if not source.present:
        return
    if not source.names():
        source.invalid(_NO_SOURCE, "")
    elif variable["value"].text():
        source.invalid("may not be specified when `value` is not empty", "")
    elif len(source.names()) > 1:
        source.invalid("may not have more than one field specified at a time", "")


def _mount(mount: Field, volumes: set[str]) -> None:
    name = mount["name"]
    if not name.text():
        name.required()
    if name.text() not in volumes:
        name.not_found()
    if not mount["mountPath"].text():
        mount["mountPath"].required()


def _distinct_mounts(mounts: Field) -> None:
    seen = set()
    for mount in mounts.items():
        if mount["mountPath"].text() in seen:
            mount["mountPath"].invalid("must be unique")
        seen.add(mount["mountPath"].text())


def _volumes(field: Field) -> set[str]:
    names: set[str] = set()
    for volume in field.items():
        name = volume["name"]
        if not name.text():
            name.required()
        else:
            name.follow(dns_label)
        if name.text() in names:
            name.duplicate()
        names.add(name.text())
        sources = [source for source in volume.names() if source != "name"]
        if not sources:
            volume.required("must specify a volume type")
        for source in sources[1:]:
            volume[source].forbidden("may not specify more than 1 volume type")
    return names


def _claims(field: Field) -> set[str]:
    names: set[str] = set()
    for claim in field.items():
        name = claim["name"]
        if not name.text():
            name.required()
        elif name.text() in names:
            name.duplicate()
        else:
            name.follow(dns_label)
        names.add(name.text())
        _claim_source(claim)
    return names


def _claim_source(claim: Field) -> None:
    given = [name for name in ("resourceClaimName", "resourceClaimTemplateName") if claim[name].present]
    if len(given) > 1:
        claim.invalid("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
    if not given:
        claim.invalid("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
    for name in given:
        claim[name].follow(dns_subdomain)


def _changes(spec: Field, old: Field) -> None:
    """What may change in a pod's spec: images, a shorter deadline, more tolerations, fewer gates."""
    for name in ("containers", "initContainers"):
        if len(spec[name].items()) != len(old[name].items()):
            spec[name].forbidden("pod updates may not add or remove containers")
            return
    _deadline(spec["activeDeadlineSeconds"], old["activeDeadlineSeconds"])
    _tolerations(spec["tolerations"], old["tolerations"])
    gates = {gate["name"].text() for gate in old["schedulingGates"].items()}
    for gate in spec["schedulingGates"].items():
        if gate["name"].text() not in gates:
            why = f"only deletion is allowed, but found new scheduling gate '{gate['name'].text()}'"
            gate["name"].forbidden(why)
    if gates:
        _gated_selector(spec["nodeSelector"], old["nodeSelector"])
    if not same(_fixed_part(spec.value, bool(gates)), _fixed_part(old.value, bool(gates))):
        spec.forbidden(f"pod updates may not change fields other than {_CHANGEABLE}")


def _deadline(new: Field, old: Field) -> None:
    if not new.present:
        if old.present:
            new.invalid("must not update from a positive integer to nil value")
    elif old.present and old.integer() < new.integer():
        new.invalid("must be less than or equal to previous value")


def _tolerations(new: Field, old: Field) -> None:
    kept = [_lasting(item.value) for item in new.items()]
    if any(not any(same(_lasting(item.value), one) for one in kept) for item in old.items()):
        new.forbidden("existing toleration can not be modified except its tolerationSeconds")


def _lasting(toleration: Any) -> Any:
    fixed = copy.copy(toleration)
    drop(fixed, "tolerationSeconds")
    return fixed


def _gated_selector(new: Field, old: Field) -> None:
    """Before it is scheduled a gated pod may be told more about where to run."""
    for key, value in old.entries():
        if new.key(key).value != value.value:
            new.invalid("only additions to spec.nodeSelector are allowed (no mutations or deletions)")
            return


def _fixed_part(spec: Any, gated: bool) -> Any:
    """The spec without what may change."""
    fixed = copy.deepcopy(spec)
    drop(fixed, "activeDeadlineSeconds", "tolerations", "schedulingGates")
    for container in items(fixed, "containers") + items(fixed, "initContainers"):
        drop(container, "image")
    if gated:
        drop(fixed, "nodeSelector")
        drop(at(fixed, "affinity"), "nodeAffinity")
    return fixed
