{{/* The name of the pod that `helm test` runs, of its ServiceAccount and roles. */}}
{{- define "topology-webhook.testName" -}}
{{- include "topology-webhook.fullname" . }}-test
{{- end }}

{{/* What the objects of templates/tests.yaml share. Takes {root, weight, suffix, keep}: weight orders their creation, suffix
ends the name, and keep leaves the object in the cluster. */}}
{{- define "topology-webhook.testMetadata" -}}
name: {{ include "topology-webhook.testName" .root }}{{ default "" .suffix }}
{{- /* Not the Deployment's labels: its Services, budget and NetworkPolicy select by them. */}}
{{- $name := printf "%s-test" (include "topology-webhook.name" .root | trunc 58 | trimSuffix "-") }}
labels: {{- merge (dict "app.kubernetes.io/name" $name) (include "topology-webhook.labels" .root | fromYaml) | toYaml | nindent 2 }}
annotations:
  helm.sh/hook: test
  helm.sh/hook-weight: {{ .weight | quote }}
  helm.sh/hook-delete-policy: {{ default false .keep | ternary "before-hook-creation" "before-hook-creation,hook-succeeded,hook-failed" }}
{{- end }}
