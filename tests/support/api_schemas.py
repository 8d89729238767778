"""The schemas of Kubernetes' kinds for kubeconform, from Kubernetes' pinned source."""

import json
from pathlib import Path
from typing import Any

from support.go_programs import ROOT, source

KUBERNETES = ROOT / "localcluster" / "kubernetes"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
LOCATION = "{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json"
"""Template of a schema's file name, for kubeconform's flag -schema-location."""


def write(folder: Path) -> None:
    """Write one file for each kind; fields that Kubernetes does not know are errors in them."""
    openapi = source(KUBERNETES, "k8s.io/kubernetes") / "api" / "openapi-spec" / "swagger.json"
    definitions = {
        name: _strict(each)
        for name, each in json.loads(openapi.read_text())["definitions"].items()
    }
    definitions[QUANTITY] = {"type": ["string", "number"]}
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            made = {"$ref": f"#/definitions/{name}", "definitions": _below(name, definitions)}
            group = kind["group"] or kind["version"]
            file = f"{group}_{kind['version']}_{kind['kind'].lower()}.json"
            (folder / file).write_text(json.dumps(made))


def _strict(schema: Any) -> Any:
    """The schema with int-or-string as Kubernetes means it, and without unknown fields."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _strict(each) for key, each in schema.items()}
    if made.get("format") == "int-or-string":
        return {"type": ["string", "integer"]}
    if isinstance(made.get("properties"), dict) and "$ref" not in made["properties"]:
        made.setdefault("additionalProperties", False)
    return made


def _below(name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """A definition and all that it refers to."""
    found: dict[str, Any] = {}
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found[each] = definitions[each]
            parts = json.dumps(definitions[each]).split('"#/definitions/')[1:]
            waiting += [part.partition('"')[0] for part in parts]
    return found
