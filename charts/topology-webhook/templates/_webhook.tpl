{{/* How and when the API server calls the service; shared by both webhook configurations. */}}

{{- define "topology-webhook.configurationMetadata" -}}
name: {{ include "topology-webhook.fullname" . }}
labels: {{- include "topology-webhook.labels" . | nindent 2 }}
{{- $annotations := deepCopy .Values.webhook.annotations }}
{{- if eq .Values.tls.mode "CertManager" }}
{{- $_ := set $annotations "cert-manager.io/inject-ca-from" (printf "%s/%s" (include "topology-webhook.namespace" .) (include "topology-webhook.tlsSecretName" .)) }}
{{- end }}
{{- with $annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Takes {root, path}. caBundle is set only in mode ExistingSecret: else the service, or cert-manager, owns that field. */}}
{{- define "topology-webhook.clientConfig" -}}
{{- $values := .root.Values.webhook }}
{{- with $values.url -}}
url: {{ printf "%s%s" (trimSuffix "/" .) $.path | quote }}
{{- else -}}
service:
  namespace: {{ include "topology-webhook.namespace" .root }}
  name: {{ include "topology-webhook.fullname" .root }}
  path: {{ .path }}
  port: 443
{{- end }}
{{- with .root.Values.tls.existingSecret }}
{{- if and .caBundle (eq $.root.Values.tls.mode "ExistingSecret") }}
caBundle: {{ b64enc .caBundle }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Takes {root, failurePolicy, timeoutSeconds}; without timeoutSeconds: the one of the values. In the modes Observe and Off nothing is
denied, also while no replica answers.
*/}}
{{- define "topology-webhook.callPolicy" -}}
admissionReviewVersions: [v1]
sideEffects: None
matchPolicy: Equivalent
failurePolicy: {{ eq .root.Values.settings.mode "Enforce" | ternary .failurePolicy "Ignore" }}
timeoutSeconds: {{ .timeoutSeconds | default .root.Values.webhook.timeoutSeconds }}
{{- end }}

{{- define "topology-webhook.podPolicy" -}}
{{- include "topology-webhook.callPolicy" (dict "root" . "failurePolicy" .Values.webhook.failurePolicy) }}
{{- end }}

{{- define "topology-webhook.namespaceSelector" -}}
{{- include "topology-webhook.namespacesWith" (dict "root" . "labels" list) }}
{{- end }}

{{/* Takes {root, labels}: requirements on the namespace's labels besides those of the values. */}}
{{- define "topology-webhook.namespacesWith" -}}
{{- $excluded := prepend .root.Values.webhook.excludedNamespaces (include "topology-webhook.namespace" .root) | uniq }}
{{- $selector := deepCopy .root.Values.webhook.namespaceSelector }}
{{- $own := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" $excluded }}
{{- $_ := set $selector "matchExpressions" (concat (list $own) .labels (default list $selector.matchExpressions)) -}}
namespaceSelector: {{- toYaml $selector | nindent 2 }}
{{- end }}

{{/* Takes {root, labels} as namespacesWith does. */}}
{{- define "topology-webhook.podSelectors" -}}
{{- include "topology-webhook.namespacesWith" . }}
{{- with .root.Values.webhook.objectSelector }}
objectSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
The webhook on created pods. Takes {root, name, mode, labels}: its name, which pods are managed, and for which namespaces,
by requirements on their labels.
*/}}
{{- define "topology-webhook.mutatePods" -}}
- name: mutate.{{ .name }}.topology-webhook.dev
  clientConfig: {{- include "topology-webhook.clientConfig" (dict "root" .root "path" "/mutate/pods") | nindent 4 }}
  rules:
    - {apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE], scope: Namespaced}
  # Called again when a later webhook changes the pod (a sidecar changes what must fit); a second pass over an unchanged pod adds nothing.
  reinvocationPolicy: IfNeeded
  {{- include "topology-webhook.podPolicy" .root | nindent 2 }}
  {{- include "topology-webhook.podSelectors" . | nindent 2 }}
  # Each condition, and each webhook that has any and selects the namespace, costs the API server time with every pod: so
  # there is one here, and what is created is judged by no other webhook.
  matchConditions:
    # Pods that are not managed cost no call. Any user can call a pod a DaemonSet's or a mirror: not to forge, though.
    - name: asks-for-something-or-carries-ours
      expression: >-
        ({{- include "topology-webhook.isAnnotated" "object" | nindent 8 }} || has(object.spec.schedulingGroup)
        {{- if .root.Values.settings.kueueAnnotations }} ||
        object.?metadata.annotations.orValue({}).exists(key, key.startsWith('kueue.x-k8s.io/podset-'))
        {{- end }}
        {{- if .root.Values.settings.advanced.grovePodGangs }} ||
        'grove.io/podgang' in object.?metadata.labels.orValue({})
        {{- end }}
        {{- if ne .mode "Annotated" }} ||
        {{- include "topology-webhook.isOpen" .root | nindent 8 }}
        {{- end }}
        {{- if eq .mode "Aligned" }} &&
        {{- include "topology-webhook.mayBeAligned" "object" | nindent 8 }}
        {{- end }}) &&
        {{- include "topology-webhook.notAMirrorPod" . | nindent 8 }} &&
        {{- include "topology-webhook.notOfADaemonSet" . | nindent 8 }} ||
        {{- include "topology-webhook.carriesOutputs" "object" | nindent 8 }}
    {{- include "topology-webhook.ownConditions" .root | nindent 4 }}
{{- end }}

{{/* CEL. Whether the node of the pod is open, for a scheduler whose pods are placed. */}}
{{- define "topology-webhook.isOpen" -}}
object.?spec.nodeName.orValue('') == '' &&
object.?spec.schedulerName.orValue('default-scheduler') in {{ toJson .Values.settings.schedulerNames }}
{{- end }}

{{/*
CEL. Whether a kubelet may align the pod: CPUs, memory and huge pages of a Guaranteed pod, and devices of any pod. The service
knows which of them the cluster's NUMA nodes have (webhook/engine/kubelet/alignable.py). Pods larger than any in use are not examined,
because that would cost the API server time.
*/}}
{{- define "topology-webhook.mayBeAligned" -}}
[object.spec.containers + object.?spec.initContainers.orValue([])].exists(containers, containers.size() > 64 ||
containers.all(container, ['cpu', 'memory'].all(name,
container.?resources.limits[?name].hasValue() && container.?resources.requests[?name].hasValue() &&
(container.resources.limits[name] == container.resources.requests[name] ||
quantity(container.resources.limits[name]).compareTo(quantity(container.resources.requests[name])) == 0))) ||
containers.exists(container, container.?resources.limits.orValue({}).size() > 16 ||
container.?resources.limits.orValue({}).exists(name, name.contains('/') && !name.contains('kubernetes.io/'))))
{{- end }}

{{/* CEL. Takes object or oldObject: whether that pod asks for anything (is_annotated in webhook/cache/unmanaged.py), or names a strategy. */}}
{{- define "topology-webhook.isAnnotated" -}}
(has({{ . }}.metadata.annotations) && ([
'scheduling.koordinator.sh/numa-topology-spec', 'scheduling.koordinator.sh/resource-spec', 'topology-webhook.dev/managed',
'pod-group-name', 'topology-webhook.dev/min-member', 'topology-webhook.dev/strategy', 'kai.scheduler/topology',
'kai.scheduler/topology-required-placement', 'kai.scheduler/topology-preferred-placement',
'kai.scheduler/segment-size', 'kai.scheduler/segment-topology-required-placement', 'kai.scheduler/segment-topology-preferred-placement',
'kai.scheduler/batch-min-member'].exists(key, key in {{ . }}.metadata.annotations) ||
{{ . }}.metadata.annotations[?'topology-webhook.dev/inherit'].orValue('') == 'true'))
{{- end }}

{{/* CEL. Excludes pods that others place: the kubelet (mirrors of static pods) and the DaemonSet controller. */}}
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

{{/* CEL. API group (of the core API its version) and kind of each controller whose objects are checked with it: MAKERS in webhook/model/workload/readers.py. */}}
{{- define "topology-webhook.readKinds" -}}
['v1/Pod', 'v1/ReplicationController', 'apps/Deployment', 'apps/ReplicaSet', 'apps/StatefulSet', 'batch/CronJob', 'batch/Job',
'batch.volcano.sh/Job', 'jobset.x-k8s.io/JobSet', 'kubeflow.org/JAXJob', 'kubeflow.org/MPIJob', 'kubeflow.org/PaddleJob',
'kubeflow.org/PyTorchJob', 'kubeflow.org/TFJob', 'kubeflow.org/XGBoostJob', 'leaderworkerset.x-k8s.io/LeaderWorkerSet',
'ray.io/RayCluster', 'ray.io/RayJob', 'ray.io/RayService']
{{- end }}

{{- define "topology-webhook.notOfAController" -}}
# Workloads that a controller of these kinds creates are validated with it; the Pod is the leader of a LeaderWorkerSet's group.
# What the controller of any other kind creates (an AppWrapper, a Trial) is a workload of its own.
- name: not-of-a-controller
  expression: >-
    !object.?metadata.ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false) &&
    owner.apiVersion.split('/')[0] + '/' + owner.kind in
    {{- include "topology-webhook.readKinds" . | nindent 4 }})
{{- end }}

{{/*
CEL. Whether a workload, or one of its pod templates, carries an annotation about placement. By kind: any; CronJob; LeaderWorkerSet;
JobSet; Volcano's Job; Kubeflow's jobs; Ray's kinds. Takes {root, of}: of is the name of the object.
*/}}
{{- define "topology-webhook.asksForAPlacement" -}}
{{- $ask := include "topology-webhook.areAboutPlacement" .root -}}
[{{ .of }}.?metadata.annotations.orValue({}),
{{ .of }}.?spec.template.metadata.annotations.orValue({}),
{{ .of }}.?spec.jobTemplate.metadata.annotations.orValue({}),
{{ .of }}.?spec.jobTemplate.spec.template.metadata.annotations.orValue({}),
{{ .of }}.?spec.leaderWorkerTemplate.leaderTemplate.metadata.annotations.orValue({}),
{{ .of }}.?spec.leaderWorkerTemplate.workerTemplate.metadata.annotations.orValue({})].exists(annotations, {{ $ask }}) ||
{{ .of }}.?spec.replicatedJobs.orValue([]).exists(job,
[job.?template.metadata.annotations.orValue({}),
job.?template.spec.template.metadata.annotations.orValue({})].exists(annotations, {{ $ask }})) ||
{{ .of }}.?spec.tasks.orValue([]).exists(task,
[task.?template.metadata.annotations.orValue({})].exists(annotations, {{ $ask }})) ||
{{ .of }}.?spec.orValue({}).exists(field, field.endsWith('ReplicaSpecs') && {{ .of }}.spec[field].exists(role,
[{{ .of }}.spec[field][role].?template.metadata.annotations.orValue({})].exists(annotations, {{ $ask }}))) ||
[{{ .of }}.?spec.orValue({}), {{ .of }}.?spec.rayClusterSpec.orValue({}), {{ .of }}.?spec.rayClusterConfig.orValue({})].exists(ray,
[ray.?headGroupSpec.template.metadata.annotations.orValue({})].exists(annotations, {{ $ask }}) ||
ray.?workerGroupSpecs.orValue([]).exists(group,
[group.?template.metadata.annotations.orValue({})].exists(annotations, {{ $ask }})))
{{- end }}
{{- define "topology-webhook.areAboutPlacement" -}}
annotations.exists(key, key == 'pod-group-name' || key.startsWith('kai.scheduler/') ||
key.startsWith('topology-webhook.dev/') || key.startsWith('scheduling.koordinator.sh/')
{{- if .Values.settings.kueueAnnotations }} || key.startsWith('kueue.x-k8s.io/podset-'){{ end }})
{{- end }}

{{- define "topology-webhook.ownConditions" -}}
{{- with .Values.webhook.matchConditions }}
{{- toYaml . }}
{{- end }}
{{- end }}
