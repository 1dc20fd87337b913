{{/* What the objects of templates/uninstall.yaml share. Takes {root, weight}: weight orders their creation. */}}
{{- define "topology-webhook.uninstallMetadata" -}}
name: {{ include "topology-webhook.uninstallName" .root }}
labels: {{- include "topology-webhook.uninstallLabels" .root | nindent 2 }}
annotations:
  helm.sh/hook: pre-delete
  helm.sh/hook-weight: {{ .weight | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* Not the Deployment's labels: its Services, budget and NetworkPolicy select by them. */}}
{{- define "topology-webhook.uninstallLabels" -}}
{{- $name := printf "%s-uninstall" (include "topology-webhook.name" . | trunc 53 | trimSuffix "-") }}
{{- merge (dict "app.kubernetes.io/name" $name) (include "topology-webhook.labels" . | fromYaml) | toYaml }}
{{- end }}
