{{- /*
One InferenceRuntime: the chart's spec of the server, the keys of its section in the values, and the
values of the whole chart. Arguments: the root, the name, the section, the spec as YAML.
*/ -}}
{{- define "runtimes.object" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $values := index . 2 -}}
{{- $spec := index . 3 | fromYaml -}}
{{- if hasKey $spec "Error" }}{{ fail (printf "%s: %s" $name $spec.Error) }}{{ end -}}
{{- $formats := list -}}
{{- range ($values.formats | default $spec.formats) -}}
{{- $formats = append $formats (dict "name" . "priority" (int $values.priority)) -}}
{{- end -}}
{{- $_ := set $spec "formats" $formats -}}
{{- if $values.image }}{{ $_ := set $spec "image" $values.image }}{{ end -}}
{{- if $values.args }}{{ $_ := set $spec "args" $values.args }}{{ end -}}
{{- if $values.default }}{{ $_ := set $spec "default" true }}{{ end -}}
{{- $_ := set $spec "updatePolicy" $root.Values.updatePolicy -}}
{{- if eq $root.Values.updatePolicy "Automatic" -}}
{{- $_ := set $spec "maxConcurrentRollouts" (int $root.Values.maxConcurrentRollouts) -}}
{{- end -}}
{{- if $root.Values.allowedNamespaces -}}
{{- $_ := set $spec "allowedNamespaces" (dict "selector" $root.Values.allowedNamespaces) -}}
{{- end -}}
{{- /* OpenShift's restricted-v2 chooses the user from the namespace's range and refuses others. */ -}}
{{- if $root.Values.openshift -}}
{{- $_ := unset (dig "podTemplate" "spec" "securityContext" dict $spec) "runAsUser" -}}
{{- end -}}
{{- $spec = mergeOverwrite $spec (deepCopy $values.spec) -}}
---
apiVersion: moorage.dev/v1alpha1
kind: InferenceRuntime
metadata:
  name: {{ $name }}
  labels:
    app.kubernetes.io/name: {{ $root.Chart.Name }}
    app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
    app.kubernetes.io/managed-by: {{ $root.Release.Service }}
    helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
spec: {{- toYaml $spec | nindent 2 }}
{{ end }}

{{- /*
Fails if the values make more than one runtime the default of all allowed namespaces: a model that
names none could not choose.
*/ -}}
{{- define "runtimes.oneDefault" -}}
{{- $defaults := list -}}
{{- range $section, $values := .Values -}}
{{- if kindIs "map" $values -}}
{{- if and $values.enabled $values.default (not (hasKey $values.spec "allowedNamespaces")) -}}
{{- $defaults = append $defaults (printf "%s.default" $section) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if gt (len $defaults) 1 -}}
{{ fail (printf "%s are true, but a namespace can have only one default runtime: set one of them, or spec.allowedNamespaces of each" (join ", " $defaults)) }}
{{- end -}}
{{- end }}
