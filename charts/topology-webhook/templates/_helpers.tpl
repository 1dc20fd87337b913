{{/* The name of everything the chart makes. Cluster-wide objects carry it too: one release per cluster. */}}
{{- define "topology-webhook.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* 52: room for the suffixes "-ca", "-bind", "-metrics" within the 63 characters of a DNS label. */}}
{{- define "topology-webhook.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "topology-webhook.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "topology-webhook.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* The Service that leads to the leader. */}}
{{- define "topology-webhook.bindServiceName" -}}
{{- include "topology-webhook.fullname" . }}-bind
{{- end }}

{{- define "topology-webhook.selectorLabels" -}}
app.kubernetes.io/name: {{ include "topology-webhook.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "topology-webhook.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "topology-webhook.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "topology-webhook.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "topology-webhook.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "topology-webhook.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* The Secret of the CA (mode self), or of the certificate that cert-manager issues. */}}
{{- define "topology-webhook.tlsSecretName" -}}
{{- if eq .Values.tls.mode "self" }}
{{- default (printf "%s-ca" (include "topology-webhook.fullname" .)) .Values.tls.secretName }}
{{- else }}
{{- printf "%s-tls" (include "topology-webhook.fullname" .) }}
{{- end }}
{{- end }}

{{/* The names besides the Services' that the certificate must carry, comma-separated: tls.names and the hosts of the URLs called. */}}
{{- define "topology-webhook.tlsNames" -}}
{{- $names := .Values.tls.names }}
{{- range compact (list .Values.webhook.url .Values.webhook.bindUrl) }}
{{- $names = append $names ((urlParse .).hostname | trimPrefix "[" | trimSuffix "]") }}
{{- end }}
{{- uniq $names | join "," }}
{{- end }}
