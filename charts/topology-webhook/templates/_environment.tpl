{{/* The settings of `topology-webhook serve` as environment variables: field name in upper case behind TOPOLOGY_WEBHOOK_.
One that stands in extraEnv as well is left to extraEnv: the API server takes no name twice. */}}
{{- define "topology-webhook.environment" -}}
{{- $weights := list }}
{{- range $resource, $weight := .Values.settings.resourceWeights }}
{{- $weights = append $weights (printf "%s=%v" $resource $weight) }}
{{- end }}
{{- $settings := dict
  "NAMESPACE" .Release.Namespace
  "SERVICE_NAME" (include "topology-webhook.fullname" .)
  "PORT" .Values.ports.webhook
  "METRICS_PORT" .Values.ports.metrics
  "TLS_NAMES" (include "topology-webhook.tlsNames" .)
  "NO_COMPATIBLE_NODE" .Values.settings.noCompatibleNode
  "FIDELITY" .Values.settings.fidelity
  "SCORE_STRATEGY" .Values.settings.scoreStrategy
  "RESOURCE_WEIGHTS" (join "," $weights)
  "MAX_AFFINITY_VALUES" .Values.settings.maxAffinityValues
  "PREFERRED_NODES" .Values.settings.preferredNodes
  "DRAIN_SECONDS" .Values.settings.drainSeconds
  "LIST_PAGE_SIZE" .Values.settings.listPageSize
  "LOG_LEVEL" .Values.settings.logLevel
  "LOG_FORMAT" .Values.settings.logFormat
}}
{{- if eq .Values.tls.mode "self" }}
{{- $_ := set $settings "TLS_MODE" "secret" }}
{{- $_ := set $settings "TLS_SECRET_NAME" (include "topology-webhook.tlsSecretName" .) }}
{{- $_ := set $settings "WEBHOOK_CONFIGURATIONS" (include "topology-webhook.fullname" .) }}
{{- else }}
{{- $_ := set $settings "TLS_MODE" "files" }}
{{- $_ := set $settings "TLS_CERT_FILE" "/etc/topology-webhook/tls/tls.crt" }}
{{- $_ := set $settings "TLS_KEY_FILE" "/etc/topology-webhook/tls/tls.key" }}
{{- end }}
{{- range .Values.extraEnv }}
{{- $_ := unset $settings (trimPrefix "TOPOLOGY_WEBHOOK_" .name) }}
{{- end }}
{{- range $name, $value := $settings }}
{{- if ne (toString $value) "" }}
- name: TOPOLOGY_WEBHOOK_{{ $name }}
  {{- /* Numbers of a values file are float64, which would print large ones as 1e+06. */}}
  value: {{ kindIs "float64" $value | ternary (int64 $value) $value | toString | quote }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
