"""The CRD as a template of the chart, so that it is upgraded with the chart.

Helm never upgrades the crds/ folder of a chart.
"""

from pathlib import Path

SOURCE = "crds/inferencemodels.yaml"
TEMPLATE = "charts/moorage/templates/inferencemodels-crd.yaml"
HEADER = f"{{{{- /* Generated from {SOURCE} by `make generate`. */ -}}}}\n"
KEEP = """\
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
"""


def files(root: Path) -> dict[str, str]:
    """The template."""
    return {TEMPLATE: template((root / SOURCE).read_text())}


def template(source: str) -> str:
    """The CRD as a template with escaped braces and the keep policy."""
    escaped = source.replace("{{", '{{ "{{" }}')
    head, found, rest = escaped.partition("metadata:\n")
    if not found or "annotations:" in rest.split("\nspec:", 1)[0]:
        raise ValueError("expected a CRD with a metadata block without annotations")
    body = f"{head}{found}{KEEP}{rest}"
    return f"{HEADER}{{{{- if .Values.crds.install }}}}\n{body.rstrip()}\n{{{{- end }}}}\n"
