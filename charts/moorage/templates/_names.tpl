{{- define "moorage.labels" -}}
{{ include "moorage.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "moorage.selector" -}}
app.kubernetes.io/name: moorage
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "moorage.operatorImage" -}}
{{ .Values.image.operator.repository }}:{{ .Values.image.operator.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "moorage.runtimeImage" -}}
{{ .Values.image.runtime.repository }}:{{ .Values.image.runtime.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* What the operator calls, and nothing more; a test compares it with the calls. */ -}}
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
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [get, list, watch, create, patch, delete]
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
  resources: [configmaps, persistentvolumeclaims, secrets]
  verbs: [get]
{{- end }}
