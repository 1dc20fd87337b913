{{/* What the API server needs to call us, and when; shared by both webhook configurations. */}}

{{- define "topology-webhook.configurationMetadata" -}}
name: {{ include "topology-webhook.fullname" . }}
labels: {{- include "topology-webhook.labels" . | nindent 2 }}
{{- $annotations := deepCopy .Values.webhook.annotations }}
{{- if eq .Values.tls.mode "cert-manager" }}
{{- $_ := set $annotations "cert-manager.io/inject-ca-from" (printf "%s/%s" .Release.Namespace (include "topology-webhook.tlsSecretName" .)) }}
{{- end }}
{{- with $annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Takes {root, path, leader}: leader is true for what only the leader answers. caBundle is left out on purpose: the service, or cert-manager, owns that field. */}}
{{- define "topology-webhook.clientConfig" -}}
{{- $values := .root.Values.webhook }}
{{- with .leader | ternary (default $values.url $values.bindUrl) $values.url -}}
url: {{ printf "%s%s" (trimSuffix "/" .) $.path | quote }}
{{- else -}}
service:
  namespace: {{ .root.Release.Namespace }}
  name: {{ include (.leader | ternary "topology-webhook.bindServiceName" "topology-webhook.fullname") .root }}
  path: {{ .path }}
  port: 443
{{- end }}
{{- end }}

{{- define "topology-webhook.callPolicy" -}}
admissionReviewVersions: [v1]
sideEffects: None
matchPolicy: Equivalent
failurePolicy: {{ .Values.webhook.failurePolicy }}
timeoutSeconds: {{ .Values.webhook.timeoutSeconds }}
{{- end }}

{{- define "topology-webhook.selectors" -}}
{{- $excluded := prepend .Values.webhook.excludedNamespaces .Release.Namespace | uniq }}
{{- $selector := deepCopy .Values.webhook.namespaceSelector }}
{{- $own := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" $excluded }}
{{- $_ := set $selector "matchExpressions" (prepend (default list $selector.matchExpressions) $own) -}}
namespaceSelector: {{- toYaml $selector | nindent 2 }}
{{- with .Values.webhook.objectSelector }}
objectSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Pods whose place others decide: the kubelet (static pods, seen as mirrors) and the DaemonSet controller. */}}
{{- define "topology-webhook.matchConditions" -}}
- name: not-a-mirror-pod
  expression: >-
    !has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)
- name: not-of-a-daemonset
  expression: >-
    !has(object.metadata.ownerReferences) ||
    !object.metadata.ownerReferences.exists(owner, owner.kind == 'DaemonSet' && has(owner.controller) && owner.controller)
{{- with .Values.webhook.matchConditions }}
{{ toYaml . }}
{{- end }}
{{- end }}
