{{- define "moorage.labels" -}}
{{ include "moorage.selector" . }}
{{- /* Whatever nameOverride is, the tool moorage finds the operator by it. */}}
app.kubernetes.io/part-of: moorage
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "moorage.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default "moorage" | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* A name of its own, since the operator's Service and policies select by the other one. */ -}}
{{- define "moorage.pageSelector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default "moorage" }}-page
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "moorage.pageLabels" -}}
{{ include "moorage.pageSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* The prefix of every name; the operator's own objects have it as their name. */ -}}
{{- define "moorage.fullname" -}}
{{- $name := .Values.fullnameOverride | default .Release.Name -}}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" $name) -}}
{{- fail (printf "the release name %s cannot begin the name of a Service: set fullnameOverride to lowercase letters, digits and hyphens that begin with a letter" $name) -}}
{{- end -}}
{{ $name }}
{{- end }}

{{- define "moorage.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "moorage.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end }}

{{- /* OpenShift's restricted-v2 chooses the user from the namespace's range and refuses others. */ -}}
{{- define "moorage.podSecurityContext" -}}
runAsNonRoot: true
{{- if not .Values.openshift }}
runAsUser: 65532
runAsGroup: 65532
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "moorage.registry" -}}
{{ required "image.registry is empty, and no public registry has the images. Run `make images REGISTRY=registry.example.com/team PUSH=1` with your registry, then install with `-f build/images/values.yaml`" (.Values.image.registry | default (.Values.global).imageRegistry) }}
{{- end }}

{{- define "moorage.operatorImage" -}}
{{ include "moorage.registry" . }}/{{ include "moorage.imageName" (list .Values.image.operator .Chart) }}
{{- end }}

{{- define "moorage.runtimeImage" -}}
{{ include "moorage.registry" . }}/{{ include "moorage.imageName" (list .Values.image.runtime .Chart) }}
{{- end }}

{{- define "moorage.cliImage" -}}
{{ include "moorage.registry" . }}/{{ include "moorage.imageName" (list .Values.image.cli .Chart) }}
{{- end }}

{{- /* Repository and digest, or tag. */ -}}
{{- define "moorage.imageName" -}}
{{- $image := index . 0 -}}
{{- $chart := index . 1 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default $chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "moorage.pullSecretNames" -}}
{{- $names := list -}}
{{- range .Values.image.pullSecrets }}{{ $names = append $names .name }}{{ end -}}
{{ join "," $names }}
{{- end }}

{{- /* Exactly the calls that the operator makes; a test compares them. */ -}}
{{- define "moorage.rules" -}}
- apiGroups: [moorage.dev]
  resources: [inferencemodels]
  verbs: [get, list, watch]
- apiGroups: [moorage.dev]
  resources: [inferencemodels/status]
  verbs: [patch]
- apiGroups: [apps]
  resources: [deployments, controllerrevisions]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [list]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies, ingresses]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes, grpcroutes]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
- apiGroups: [""]
  resources: [configmaps, persistentvolumeclaims]
  verbs: [get]
{{- end }}

{{- /* For rbac.secretHints and rbac.readSecrets. */ -}}
{{- define "moorage.secretRules" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end }}
