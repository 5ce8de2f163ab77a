"""Generate `common/sandbox/types.json`: the fields of the built-in kinds and their types, for the sandbox's decoder.

    python -m hack.sandbox_types FOLDER      # with the OpenAPI v3 documents of a Kubernetes release

The release has them under `api/openapi-spec/v3`; a running server gives the same at `/openapi/v3/…`. Descriptions are
left out; what remains of each type is `{field: type}`, a type being one of the words that `common/sandbox/decoding.py`
knows, the name of another type, or one of these behind `[` (list of) or `{` (map of).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kubenexus.common.sandbox.kinds import BUILTIN

Obj = dict[str, Any]

TARGET = Path(__file__).parents[1] / "common" / "sandbox" / "types.json"
_WORDS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
}
_OPEN = ("RawExtension", "FieldsV1", "JSONSchemaProps", "JSON")


def main(folder: str) -> None:
    schemas: dict[str, Obj] = {}
    for kind in BUILTIN:
        name = kind.resource.base_path.strip("/").replace("/", "__")
        schemas |= json.loads((Path(folder) / f"{name}_openapi.json").read_text())["components"]["schemas"]
    roots = {f"{kind.resource.api_version}/{kind.name}": _root(schemas, kind.resource) for kind in BUILTIN}
    types: dict[str, Obj] = {}
    waiting = list(roots.values())
    while waiting:
        name = waiting.pop()
        if name not in types:
            fields = schemas[name].get("properties", {})
            types[name] = {field: _type(schemas, schema) for field, schema in sorted(fields.items())}
            waiting += [inner for each in types[name].values() if (inner := each.lstrip("[{")) in schemas]
    short = {name: _short(name) for name in types}
    spelt = {short[name]: {key: _renamed(value, short) for key, value in types[name].items()} for name in sorted(types)}
    kinds = {key: short[name] for key, name in sorted(roots.items())}
    TARGET.write_text(json.dumps({"kinds": kinds, "types": spelt}, indent=0, sort_keys=True) + "\n")


def _root(schemas: dict[str, Obj], res: Any) -> str:
    wanted = {"group": res.group, "version": res.version, "kind": res.kind}
    return next(name for name, each in schemas.items() if wanted in each.get("x-kubernetes-group-version-kind", ()))


def _type(schemas: dict[str, Obj], schema: Obj) -> str:
    if "allOf" in schema:
        schema = schema["allOf"][0]
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name.rpartition(".")[2] in _OPEN:
            return "any"
        return _WORDS.get(name) or (name if schemas[name].get("properties") else _type(schemas, schemas[name]))
    match schema.get("type"):
        case "array":
            return "[" + _type(schemas, schema["items"])
        case "object" if "additionalProperties" in schema:
            return "{" + _type(schemas, schema["additionalProperties"])
        case "string" if schema.get("format") == "byte":
            return "bytes"
        case "string" | "integer" | "boolean" | "number" as word:
            return str(word)
    return "any"


def _short(name: str) -> str:
    return name.removeprefix("io.k8s.api.").removeprefix("io.k8s.apimachinery.pkg.apis.").removeprefix("io.k8s.")


def _renamed(value: str, short: dict[str, str]) -> str:
    name = value.lstrip("[{")
    return value[: len(value) - len(name)] + short.get(name, name)


if __name__ == "__main__":
    main(sys.argv[1])
