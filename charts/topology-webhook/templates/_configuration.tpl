{{/* The configuration file of `topology-webhook serve`: .Values.settings as it stands, and what other values say of the
installation. */}}
{{- define "topology-webhook.configuration" -}}
{{- $settings := deepCopy .Values.settings }}
{{- $_ := set $settings "apiVersion" "config.topology-webhook.dev/v1alpha1" }}
{{- $_ := set $settings "kind" "TopologyWebhookConfiguration" }}
{{- $_ := set $settings "trustedUsers" (include "topology-webhook.otherTrustedUsers" . | fromJsonArray) }}
{{- $installation := dict
  "name" (include "topology-webhook.fullname" .)
  "excludedNamespaces" .Values.webhook.excludedNamespaces
  "manageMissed" (or .Values.webhook.namespaceSelector .Values.webhook.objectSelector .Values.webhook.matchConditions | empty)
  "port" .Values.ports.webhook
  "peerPort" .Values.ports.peers
  "metricsPort" .Values.ports.metrics
  "page" .Values.page.enabled
  "pagePort" .Values.ports.page
  "pageHosts" .Values.page.hosts
  "tlsNames" (include "topology-webhook.tlsNames" . | fromJsonArray)
  "clientNames" .Values.tls.clientNames
}}
{{- if .Values.metrics.secure }}
{{- $_ := set $installation "metricsTlsPort" .Values.ports.metricsTls }}
{{- end }}
{{- if include "topology-webhook.clientCAVolume" . }}
{{- $_ := set $installation "clientCaFile" "/etc/topology-webhook/client-ca/ca.crt" }}
{{- end }}
{{- if ne .Values.tls.mode "SelfManaged" }}
{{- $_ := set $installation "tlsCertFile" "/etc/topology-webhook/tls/tls.crt" }}
{{- $_ := set $installation "tlsKeyFile" "/etc/topology-webhook/tls/tls.key" }}
{{- end }}
{{- toYaml (set $settings "installation" $installation) }}
{{- end }}

{{/* The container's variables: what only its pod knows, and those of the values. */}}
{{- define "topology-webhook.environment" -}}
- name: TOPOLOGY_WEBHOOK_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: TOPOLOGY_WEBHOOK_POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: TOPOLOGY_WEBHOOK_POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- range .Values.extraEnv }}
{{- if hasPrefix "TOPOLOGY_WEBHOOK_" .name }}
{{- fail (printf "extraEnv: the service does not read %s. Set it in settings, or as a flag in extraArgs" .name) }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
