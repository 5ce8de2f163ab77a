"""Mutating- and ValidatingWebhookConfiguration."""

from __future__ import annotations

from urllib.parse import urlsplit

from kubenexus.common.sandbox.validation.field import Field
from kubenexus.common.sandbox.validation.grammar import dns_1035_label, dns_subdomain, port_number
from kubenexus.common.sandbox.validation.meta import label_selector

_REVIEWS = ("v1", "v1beta1")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_FORM = "; desired format: https://host[/path]"


def webhooks(new: Field, _: Field) -> None:
    """Every webhook of a configuration, with distinct names."""
    seen = set()
    for hook in new["webhooks"].items():
        _webhook(hook)
        _review_versions(hook["admissionReviewVersions"])
        name = hook["name"].text()
        if name and name in seen:
            hook["name"].duplicate()
        seen.add(name)


def _webhook(hook: Field) -> None:
    _full_name(hook["name"])
    for rule in hook["rules"].items():
        _rule(rule)
    hook["failurePolicy"].choose("Fail", "Ignore", optional=True)
    hook["matchPolicy"].choose("Equivalent", "Exact", optional=True)
    if not hook["sideEffects"].text():
        hook["sideEffects"].required(f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    else:
        hook["sideEffects"].choose(*_SIDE_EFFECTS)
    if hook["timeoutSeconds"].present and not 1 <= hook["timeoutSeconds"].integer() <= 30:
        hook["timeoutSeconds"].invalid("the timeout value must be between 1 and 30 seconds")
    label_selector(hook["namespaceSelector"])
    label_selector(hook["objectSelector"])
    hook["reinvocationPolicy"].choose("IfNeeded", "Never", optional=True)
    _client(hook["clientConfig"])


def _full_name(field: Field) -> None:
    name = field.text()
    if not name:
        field.required()
    elif problems := dns_subdomain(name):
        field.invalid(",".join(problems))
    elif name.count(".") < 2:
        field.invalid("should be a domain with at least three segments separated by dots")


def _rule(rule: Field) -> None:
    operations = rule["operations"]
    for name in ("operations", "apiGroups", "apiVersions", "resources"):
        if not rule[name].items():
            rule[name].required()
    for name, shown in (("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")):
        texts = [item.text() for item in rule[name].items()]
        if "*" in texts and len(texts) > 1:
            rule[name].invalid(f"if '*' is present, must not specify other {shown}")
    for operation in operations.items():
        operation.choose(*_OPERATIONS)
    for name in ("apiVersions", "resources"):
        for item in rule[name].items():
            if not item.text():
                item.required()
    rule["scope"].choose("*", "Cluster", "Namespaced", optional=True)


def _client(client: Field) -> None:
    url, service = client["url"], client["service"]
    if url.present == service.present:
        client.required("exactly one of url or service is required")
    elif url.present:
        _url(url)
    else:
        _service(service)


def _url(field: Field) -> None:
    parts = urlsplit(field.text())
    if parts.scheme != "https":
        field.invalid(f"'https' is the only allowed URL scheme{_FORM}", parts.scheme)
    if not parts.netloc:
        field.invalid(f"host must be specified{_FORM}", parts.netloc)
    if "@" in parts.netloc:
        field.invalid("user information is not permitted in the URL", parts.netloc.rpartition("@")[0])
    if parts.fragment:
        field.invalid("fragments are not permitted in the URL", parts.fragment)
    if parts.query:
        field.invalid("query parameters are not permitted in the URL", parts.query)


def _service(service: Field) -> None:
    # The server confuses the two when it says which one is missing.
    for name, other in (("name", "namespace"), ("namespace", "name")):
        if not service[name].text():
            service[other].required()
    if service["port"].present and (problems := port_number(service["port"].integer())):
        service["port"].invalid(f"port is not valid: {', '.join(problems)}")
    if service["path"].text() not in ("", "/"):
        _path(service["path"])


def _path(field: Field) -> None:
    if not field.text().startswith("/"):
        field.invalid("must start with a '/'")
    for index, step in enumerate(field.text()[1:].removesuffix("/").split("/")):
        problems = [f": {problem}" for problem in dns_subdomain(step)] if step else [" may not be empty"]
        for problem in problems:
            field.invalid(f"segment[{index}]{problem}")


def _review_versions(field: Field) -> None:
    texts = [item.text() for item in field.items()]
    if not texts:
        field.required(f"must specify one of {', '.join(_REVIEWS)}")
        return
    for index, item in enumerate(field.items()):
        if item.text() in texts[:index]:
            item.invalid("duplicate version")
        else:
            item.follow(dns_1035_label)
    if not set(texts) & set(_REVIEWS):
        field.invalid(f"must include at least one of {', '.join(_REVIEWS)}")
