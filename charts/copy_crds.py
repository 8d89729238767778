#!/usr/bin/env python3
"""Copies crds/ into the chart, as a template that upgrades with it: `make crds`.

Helm never upgrades what stands in a chart's own crds/ folder; a template it does. With --check
nothing is written, and a copy that differs ends with status 1.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "crds" / "inferencemodels.yaml"
COPY = ROOT / "charts" / "moorage" / "templates" / "inferencemodels-crd.yaml"
HEADER = "{{- /* A copy of crds/inferencemodels.yaml, made by `make crds`. */ -}}\n"
KEEP = """\
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
"""


def template(source: str) -> str:
    """The CRD as a template: its braces kept from helm, with the keep policy; pure."""
    escaped = source.replace("{{", '{{ "{{" }}')
    head, found, rest = escaped.partition("metadata:\n")
    if not found or "annotations:" in rest.split("\nspec:", 1)[0]:
        message = "expected a CRD with a metadata block without annotations"
        raise ValueError(message)
    body = f"{head}{found}{KEEP}{rest}"
    return f"{HEADER}{{{{- if .Values.crds.install }}}}\n{body.rstrip()}\n{{{{- end }}}}\n"


def main() -> int:
    """Copy, or compare with --check."""
    wanted = template(SOURCE.read_text())
    if "--check" not in sys.argv[1:]:
        COPY.write_text(wanted)
        return 0
    if COPY.read_text() == wanted:
        return 0
    sys.stderr.write(
        f"{COPY.relative_to(ROOT)} differs from {SOURCE.relative_to(ROOT)}: make crds\n"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
