{{/* The settings of `topology-webhook serve` as environment variables: field name in upper case behind TOPOLOGY_WEBHOOK_.
One that stands in extraEnv as well is left to extraEnv: the API server takes no name twice. */}}
{{- define "topology-webhook.environment" -}}
{{- $weights := list }}
{{- range $resource, $weight := .Values.settings.resourceWeights }}
{{- $weights = append $weights (printf "%s=%v" $resource $weight) }}
{{- end }}
{{- $settings := dict
  "NAMESPACE" (include "topology-webhook.namespace" .)
  "SERVICE_NAME" (include "topology-webhook.fullname" .)
  "BIND_SERVICE_NAME" (include "topology-webhook.bindServiceName" .)
  "PORT" .Values.ports.webhook
  "METRICS_PORT" .Values.ports.metrics
  "PAGE" .Values.page.enabled
  "PAGE_BIND_ADDRESS" (.Values.page.hosts | empty | ternary "127.0.0.1" .Values.settings.bindAddress)
  "PAGE_PORT" .Values.ports.page
  "PAGE_HOSTS" (join "," .Values.page.hosts)
  "TLS_NAMES" (include "topology-webhook.tlsNames" .)
  "MODE" .Values.settings.mode
  "MANAGE" .Values.settings.manage
  "DEFAULT_NUMA_TOPOLOGY_POLICY" .Values.settings.defaultNumaTopologyPolicy
  "DEFAULT_EXCLUSIVE" .Values.settings.defaultExclusive
  "EXCLUDED_NAMESPACES" (join "," .Values.webhook.excludedNamespaces | default (include "topology-webhook.namespace" .))
  "MANAGE_MISSED" (or .Values.webhook.namespaceSelector .Values.webhook.objectSelector .Values.webhook.matchConditions | empty)
  "KUEUE_ANNOTATIONS" .Values.settings.kueueAnnotations
  "KOORDINATOR_RESERVATIONS" .Values.settings.koordinatorReservations
  "DYNAMIC_RESOURCES" .Values.settings.dynamicResources
  "NO_COMPATIBLE_NODE" .Values.settings.noCompatibleNode
  "NOT_ALIGNABLE" .Values.settings.notAlignable
  "UNENFORCED" .Values.settings.unenforced
  "FIDELITY" .Values.settings.fidelity
  "SCORE_STRATEGY" .Values.settings.scoreStrategy
  "RESOURCE_WEIGHTS" (join "," $weights)
  "PREFERENCE_WEIGHT" .Values.settings.preferenceWeight
  "GANG_STRATEGY" .Values.settings.gangStrategy
  "GATE" .Values.settings.gate
  "NO_CAPACITY" .Values.settings.noCapacity
  "PREEMPTION" .Values.settings.preemption
  "SCHEDULER_NAMES" (join "," .Values.settings.schedulerNames)
  "UNGATE_AFTER_SECONDS" .Values.settings.ungateAfterSeconds
  "AUTOSCALER" .Values.settings.autoscaler
  "PROVISIONING_CLASS" .Values.settings.provisioningClass
  "NODE_GROUP_LABELS" (join "," .Values.settings.nodeGroupLabels)
  "NEW_NODE_SECONDS" .Values.settings.newNodeSeconds
  "NARROW_AFTER_SECONDS" .Values.settings.narrowAfterSeconds
  "RESERVE_AFTER_SECONDS" .Values.settings.reserveAfterSeconds
  "WARN_AFTER_SECONDS" .Values.settings.warnAfterSeconds
  "STUCK_AFTER_SECONDS" .Values.settings.stuckAfterSeconds
  "EVICT_STUCK" .Values.settings.evictStuck
  "REPAIR" .Values.settings.repair
  "DELETE_REJECTED_AFTER_SECONDS" .Values.settings.deleteRejectedAfterSeconds
  "MAX_AFFINITY_VALUES" .Values.settings.maxAffinityValues
  "TRUSTED_USERS" (include "topology-webhook.otherTrustedUsers" . | fromJsonArray | join ",")
  "TRUSTED_GROUPS" (join "," .Values.settings.trustedGroups | default ",")
  "SCHEDULER_USERS" (join "," .Values.settings.schedulerUsers)
  "CLIENT_CA_FILE" (include "topology-webhook.clientCAVolume" . | empty | ternary "" "/etc/topology-webhook/client-ca/ca.crt")
  "CLIENT_NAMES" (join "," .Values.tls.clientNames)
  "NRT_AGE_SECONDS" .Values.settings.nrtAgeSeconds
  "HINT_KEY_SECRET_NAME" (include "topology-webhook.hintKeySecretName" .)
  "LEASE_NAME" (include "topology-webhook.fullname" .)
  "LEASE_DURATION_SECONDS" .Values.settings.leaseDurationSeconds
  "API_SERVER_REQUEST_TIMEOUT_SECONDS" .Values.settings.apiServerRequestTimeoutSeconds
  "DRAIN_SECONDS" .Values.settings.drainSeconds
  "LOG_LEVEL" .Values.settings.logLevel
  "LOG_FORMAT" .Values.settings.logFormat
  "BIND_ADDRESS" .Values.settings.bindAddress
}}
{{- if eq .Values.tls.mode "SelfManaged" }}
{{- $_ := set $settings "TLS_MODE" "SelfManaged" }}
{{- $_ := set $settings "TLS_SECRET_NAME" (include "topology-webhook.tlsSecretName" .) }}
{{- $_ := set $settings "WEBHOOK_CONFIGURATIONS" (include "topology-webhook.fullname" .) }}
{{- else }}
{{- $_ := set $settings "TLS_MODE" "Files" }}
{{- $_ := set $settings "TLS_CERT_FILE" "/etc/topology-webhook/tls/tls.crt" }}
{{- $_ := set $settings "TLS_KEY_FILE" "/etc/topology-webhook/tls/tls.key" }}
{{- end }}
{{- $podName := false }}
{{- range .Values.extraEnv }}
{{- $podName = or $podName (eq .name "TOPOLOGY_WEBHOOK_POD_NAME") }}
{{- $_ := unset $settings (trimPrefix "TOPOLOGY_WEBHOOK_" .name) }}
{{- end }}
{{- range $name, $value := $settings }}
{{- if ne (toString $value) "" }}
- name: TOPOLOGY_WEBHOOK_{{ $name }}
  {{- /* Numbers of a values file are float64, which would print large whole ones as 1e+06. */}}
  {{- if and (kindIs "float64" $value) (eq (toString $value) (toString (floor $value))) }}
  value: {{ int64 $value | toString | quote }}
  {{- else }}
  value: {{ toString $value | quote }}
  {{- end }}
{{- end }}
{{- end }}
{{- if not $podName }}
- name: TOPOLOGY_WEBHOOK_POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
