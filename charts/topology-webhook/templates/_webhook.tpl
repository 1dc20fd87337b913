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

{{/* Takes {root, failurePolicy}. */}}
{{- define "topology-webhook.callPolicy" -}}
admissionReviewVersions: [v1]
sideEffects: None
matchPolicy: Equivalent
failurePolicy: {{ .failurePolicy }}
timeoutSeconds: {{ .root.Values.webhook.timeoutSeconds }}
{{- end }}

{{- define "topology-webhook.podPolicy" -}}
{{- include "topology-webhook.callPolicy" (dict "root" . "failurePolicy" .Values.webhook.failurePolicy) }}
{{- end }}

{{- define "topology-webhook.namespaceSelector" -}}
{{- $excluded := prepend .Values.webhook.excludedNamespaces .Release.Namespace | uniq }}
{{- $selector := deepCopy .Values.webhook.namespaceSelector }}
{{- $own := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" $excluded }}
{{- $_ := set $selector "matchExpressions" (prepend (default list $selector.matchExpressions) $own) -}}
namespaceSelector: {{- toYaml $selector | nindent 2 }}
{{- end }}

{{- define "topology-webhook.podSelectors" -}}
{{- include "topology-webhook.namespaceSelector" . }}
{{- with .Values.webhook.objectSelector }}
objectSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* CEL. Takes object or oldObject: whether that pod asks for anything (is_annotated in webhook/admission/left_alone.py). */}}
{{- define "topology-webhook.isAnnotated" -}}
([
'scheduling.koordinator.sh/numa-topology-spec', 'scheduling.koordinator.sh/resource-spec',
'pod-group-name', 'topology-webhook.dev/min-member', 'kai.scheduler/topology',
'kai.scheduler/topology-required-placement', 'kai.scheduler/topology-preferred-placement',
'kai.scheduler/segment-size', 'kai.scheduler/segment-topology-required-placement', 'kai.scheduler/segment-topology-preferred-placement',
'kai.scheduler/batch-min-member'].exists(key, key in {{ . }}.?metadata.annotations.orValue({})) ||
{{ . }}.?metadata.annotations[?'topology-webhook.dev/inherit'].orValue('') == 'true')
{{- end }}

{{/* CEL. Pods whose place others decide: the kubelet (static pods, seen as mirrors) and the DaemonSet controller. */}}
{{- define "topology-webhook.notAMirrorPod" -}}
(!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations))
{{- end }}
{{- define "topology-webhook.notOfADaemonSet" -}}
(!has(object.metadata.ownerReferences) ||
!object.metadata.ownerReferences.exists(owner, owner.kind == 'DaemonSet' && has(owner.controller) && owner.controller))
{{- end }}

{{- define "topology-webhook.workloadRules" -}}
{{- range . }}
- apiGroups: {{- toYaml .apiGroups | nindent 4 }}
  apiVersions: {{- toYaml .apiVersions | nindent 4 }}
  resources: {{- toYaml .resources | nindent 4 }}
  operations: [CREATE, UPDATE]
  scope: Namespaced
{{- end }}
{{- end }}

{{- define "topology-webhook.notOfAController" -}}
# What a controller makes of another workload is that one's affair.
- name: not-of-a-controller
  expression: "!object.?metadata.ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false))"
{{- end }}

{{/*
CEL. Whether a workload, or one of its pod templates, carries an annotation about placement. By kind: any; CronJob; LeaderWorkerSet;
JobSet; Kubeflow's jobs; Ray's kinds. Takes the name of the object.
*/}}
{{- define "topology-webhook.asksForAPlacement" -}}
{{- $ask := include "topology-webhook.areAboutPlacement" . -}}
[{{ . }}.?metadata.annotations.orValue({}),
{{ . }}.?spec.template.metadata.annotations.orValue({}),
{{ . }}.?spec.jobTemplate.metadata.annotations.orValue({}),
{{ . }}.?spec.jobTemplate.spec.template.metadata.annotations.orValue({}),
{{ . }}.?spec.leaderWorkerTemplate.leaderTemplate.metadata.annotations.orValue({}),
{{ . }}.?spec.leaderWorkerTemplate.workerTemplate.metadata.annotations.orValue({})].exists(annotations, {{ $ask }}) ||
{{ . }}.?spec.replicatedJobs.orValue([]).exists(job,
[job.?template.metadata.annotations.orValue({}),
job.?template.spec.template.metadata.annotations.orValue({})].exists(annotations, {{ $ask }})) ||
{{ . }}.?spec.orValue({}).exists(field, field.endsWith('ReplicaSpecs') && {{ . }}.spec[field].exists(role,
[{{ . }}.spec[field][role].?template.metadata.annotations.orValue({})].exists(annotations, {{ $ask }}))) ||
[{{ . }}.?spec.orValue({}), {{ . }}.?spec.rayClusterSpec.orValue({}), {{ . }}.?spec.rayClusterConfig.orValue({})].exists(ray,
[ray.?headGroupSpec.template.metadata.annotations.orValue({})].exists(annotations, {{ $ask }}) ||
ray.?workerGroupSpecs.orValue([]).exists(group,
[group.?template.metadata.annotations.orValue({})].exists(annotations, {{ $ask }})))
{{- end }}
{{- define "topology-webhook.areAboutPlacement" -}}
annotations.exists(key, key == 'pod-group-name' || key.startsWith('kai.scheduler/') ||
key.startsWith('topology-webhook.dev/') || key.startsWith('scheduling.koordinator.sh/'))
{{- end }}

{{- define "topology-webhook.ownConditions" -}}
{{- with .Values.webhook.matchConditions }}
{{- toYaml . }}
{{- end }}
{{- end }}
