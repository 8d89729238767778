"""The CRDs as templates of the chart, so that they are upgraded with the chart.

Helm never upgrades the crds/ folder of a chart.
"""

from pathlib import Path

KINDS = ("inferencemodels", "inferenceruntimes")
KEEP = """\
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
"""


def files(root: Path) -> dict[str, str]:
    """The templates."""
    made = {}
    for kind in KINDS:
        source = f"crds/{kind}.yaml"
        path = f"charts/moorage/templates/{kind}-crd.yaml"
        made[path] = template((root / source).read_text(), source)
    return made


def template(source: str, path: str) -> str:
    """The CRD at a path as a template with escaped braces and the keep policy."""
    escaped = source.replace("{{", '{{ "{{" }}')
    head, found, rest = escaped.partition("metadata:\n")
    if not found or "annotations:" in rest.split("\nspec:", 1)[0]:
        raise ValueError("expected a CRD with a metadata block without annotations")
    body = f"{head}{found}{KEEP}{rest}"
    header = f"{{{{- /* Generated from {path} by `make generate`. */ -}}}}\n"
    return f"{header}{{{{- if .Values.crds.install }}}}\n{body.rstrip()}\n{{{{- end }}}}\n"
