{{/* The name of everything the chart makes. Cluster-wide objects carry it too: one release per cluster. */}}
{{- define "topology-webhook.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* 52: room for the suffixes "-ca", "-hint-key", "-uninstall" within the 63 characters of a DNS label. */}}
{{- define "topology-webhook.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "topology-webhook.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "topology-webhook.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Where the objects are. Helm keeps its record of the release in the release's own namespace. */}}
{{- define "topology-webhook.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "topology-webhook.selectorLabels" -}}
app.kubernetes.io/name: {{ include "topology-webhook.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "topology-webhook.ownLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "topology-webhook.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* On every object of the chart. The chart's own labels win over commonLabels. */}}
{{- define "topology-webhook.labels" -}}
{{- merge (include "topology-webhook.ownLabels" . | fromYaml) .Values.commonLabels | toYaml }}
{{- end }}

{{/* On the pods. The chart's own labels win over podLabels, and these over commonLabels. */}}
{{- define "topology-webhook.podLabels" -}}
{{- merge (include "topology-webhook.ownLabels" . | fromYaml) .Values.podLabels .Values.commonLabels | toYaml }}
{{- end }}

{{- define "topology-webhook.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "topology-webhook.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The ServiceAccount, and the name of all else, of the Job that runs before an uninstall. */}}
{{- define "topology-webhook.uninstallName" -}}
{{- include "topology-webhook.fullname" . }}-uninstall
{{- end }}

{{/* JSON. Users besides the service who may write the reserved fields: those of the values, and the Job of an uninstall. */}}
{{- define "topology-webhook.otherTrustedUsers" -}}
{{- $job := printf "system:serviceaccount:%s:%s" (include "topology-webhook.namespace" .) (include "topology-webhook.uninstallName" .) }}
{{- .Values.uninstall.ungate | ternary (append .Values.settings.trustedUsers $job) .Values.settings.trustedUsers | uniq | toJson }}
{{- end }}

{{/* The chart of a release names its image. That of a checkout names none. */}}
{{- define "topology-webhook.image" -}}
{{- if not .Values.image.repository }}
{{- fail "image.repository is empty: the chart of a checkout has no image. Build one from the Dockerfile, push it to a registry of yours, and set image.repository, e.g. --set image.repository=registry.example/topology-webhook" }}
{{- end }}
{{- $name := list (default .Values.image.registry .Values.global.imageRegistry) .Values.image.repository | compact | join "/" }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $name .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $name (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* Parent charts write names, or objects as a pod has them. */}}
{{- define "topology-webhook.imagePullSecrets" -}}
{{- $names := list }}
{{- range concat .Values.global.imagePullSecrets .Values.imagePullSecrets }}
{{- $names = append $names (kindIs "string" . | ternary . (get (kindIs "map" . | ternary . dict) "name")) }}
{{- end }}
{{- with uniq $names -}}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* The Secret of the CA (mode SelfManaged), or of the certificate that cert-manager or the user issues. */}}
{{- define "topology-webhook.tlsSecretName" -}}
{{- if eq .Values.tls.mode "SelfManaged" }}
{{- printf "%s-ca" (include "topology-webhook.fullname" .) }}
{{- else if eq .Values.tls.mode "ExistingSecret" }}
{{- if not .Values.tls.existingSecret.name }}
{{- fail "tls.mode ExistingSecret needs tls.existingSecret.name: a Secret of the release's namespace with tls.crt and tls.key" }}
{{- end }}
{{- .Values.tls.existingSecret.name }}
{{- else }}
{{- printf "%s-tls" (include "topology-webhook.fullname" .) }}
{{- end }}
{{- end }}

{{/* The Secret with the key that signs NUMA allocations. */}}
{{- define "topology-webhook.hintKeySecretName" -}}
{{- include "topology-webhook.fullname" . }}-hint-key
{{- end }}

{{/* JSON. The names besides the Service's that the certificate must carry: tls.names and the host of the URL called. */}}
{{- define "topology-webhook.tlsNames" -}}
{{- $names := .Values.tls.names }}
{{- with .Values.webhook.url }}
{{- $names = append $names ((urlParse .).hostname | trimPrefix "[" | trimSuffix "]") }}
{{- end }}
{{- uniq $names | toJson }}
{{- end }}

{{/* The volume with the CA of the API server's client certificate; empty when none is asked for. */}}
{{- define "topology-webhook.clientCAVolume" -}}
{{- with .Values.tls.clientCA }}
{{- $given := compact (list .pem .existingSecret .existingConfigMap) }}
{{- if gt (len $given) 1 }}
{{- fail "tls.clientCA: give one of pem, existingSecret and existingConfigMap, not several" }}
{{- end }}
{{- if and $.Values.tls.clientNames (not $given) }}
{{- fail "tls.clientNames is set, which needs tls.clientCA: without it no client shows a certificate" }}
{{- end }}
{{- if $given }}
name: client-ca
{{- if .existingSecret }}
secret: {secretName: {{ .existingSecret }}, defaultMode: 0440, items: [{key: {{ .key }}, path: ca.crt}]}
{{- else }}
configMap: {name: {{ default (printf "%s-client-ca" (include "topology-webhook.fullname" $)) .existingConfigMap }}, items: [{key: {{ .key }}, path: ca.crt}]}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where a monitor finds the metrics. With metrics.secure, by Prometheus' own token; the certificate is for the names that
API servers call, not for the address of a pod. */}}
{{- define "topology-webhook.metricsEndpoint" -}}
{{- if .Values.metrics.secure -}}
port: metrics-tls
scheme: https
bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
tlsConfig: {insecureSkipVerify: true}
{{- else -}}
port: metrics
{{- end }}
{{- end }}
