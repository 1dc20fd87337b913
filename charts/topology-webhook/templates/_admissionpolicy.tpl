{{/*
CEL. The annotations and labels that only the service writes (OUTPUTS in webhook/admission/reserved_fields.py), each by its name:
a loop over the keys of a pod with thousands of annotations would cost the API server seconds.
*/}}
{{- define "topology-webhook.outputs" -}}
['scheduling.koordinator.sh/resource-status', 'topology-webhook.dev/domain', 'topology-webhook.dev/epoch', 'topology-webhook.dev/lost-nodes',
'topology-webhook.dev/managed', 'topology-webhook.dev/numa', 'topology-webhook.dev/numa-defaults',
'topology-webhook.dev/numa-signature', 'topology-webhook.dev/placement', 'topology-webhook.dev/rank',
'topology-webhook.dev/scheduling-group', 'topology-webhook.dev/shard', 'topology-webhook.dev/steered']
{{- end }}

{{/* CEL. The annotations that the mutating webhook writes into pods at their creation, in their creators' name. */}}
{{- define "topology-webhook.writtenByMutation" -}}
['topology-webhook.dev/managed', 'topology-webhook.dev/numa-defaults', 'topology-webhook.dev/placement', 'topology-webhook.dev/scheduling-group', 'topology-webhook.dev/shard', 'topology-webhook.dev/steered']
{{- end }}

{{/* CEL. The other reserved annotations: no created pod has one of these. */}}
{{- define "topology-webhook.neverAtCreation" -}}
['scheduling.koordinator.sh/resource-status', 'topology-webhook.dev/domain', 'topology-webhook.dev/epoch', 'topology-webhook.dev/lost-nodes',
'topology-webhook.dev/numa', 'topology-webhook.dev/numa-signature', 'topology-webhook.dev/rank']
{{- end }}

{{/* CEL. Takes object or oldObject: whether that object carries what only the service writes. Most pods have no annotation: has() is cheap. */}}
{{- define "topology-webhook.carriesOutputs" -}}
(has({{ . }}.metadata.annotations) &&
{{ include "topology-webhook.outputs" . }}.exists(name, name in {{ . }}.metadata.annotations) ||
has({{ . }}.metadata.labels) &&
{{ include "topology-webhook.outputs" . }}.exists(name, name in {{ . }}.metadata.labels))
{{- end }}

{{/*
CEL. Whether a created pod carries what no created pod has. The annotations of the mutating webhook do not count: no decision
depends on them, and the API server would evaluate the whole policy for each pod that the webhook changed.
*/}}
{{- define "topology-webhook.carriesOthersAtCreation" -}}
(has(object.metadata.annotations) &&
{{ include "topology-webhook.neverAtCreation" . }}.exists(name, name in object.metadata.annotations) ||
has(object.metadata.labels) &&
{{ include "topology-webhook.outputs" . }}.exists(name, name in object.metadata.labels))
{{- end }}

{{/*
CEL. Whether an update changes what only the service writes, or removes the gate. Updates of a status usually change no annotation
or label at all: to find that costs the API server half of a look at each name.
*/}}
{{- define "topology-webhook.changesOutputs" -}}
(object.metadata.?annotations != oldObject.metadata.?annotations &&
{{ include "topology-webhook.outputs" . }}.exists(name,
object.metadata.?annotations[?name] != oldObject.metadata.?annotations[?name]) ||
object.metadata.?labels != oldObject.metadata.?labels &&
{{ include "topology-webhook.outputs" . }}.exists(name,
object.metadata.?labels[?name] != oldObject.metadata.?labels[?name]) ||
{{ include "topology-webhook.hasGate" "oldObject" }} &&
!{{ include "topology-webhook.hasGate" "object" }})
{{- end }}

{{/* CEL. Takes object or oldObject: whether that pod has the gate. */}}
{{- define "topology-webhook.hasGate" -}}
{{ . }}.?spec.schedulingGates.orValue([]).exists(gate, gate.name == 'topology-webhook.dev/placement')
{{- end }}

{{/* CEL. Users who may write the reserved fields. */}}
{{- define "topology-webhook.trustedUsers" -}}
{{- $own := printf "system:serviceaccount:%s:%s" (include "topology-webhook.namespace" .) (include "topology-webhook.serviceAccountName" .) }}
{{- prepend (include "topology-webhook.otherTrustedUsers" . | fromJsonArray) $own | uniq | toJson }}
{{- end }}

{{/* CEL. Whether the user may remove the gate, and change the text in the annotation placement. */}}
{{- define "topology-webhook.mayUngate" -}}
has(request.userInfo.groups) && request.userInfo.groups.exists(group, group in {{ toJson .Values.settings.advanced.trustedGroups }})
{{- end }}

{{/* CEL. Users whose Bindings may carry the reserved fields. */}}
{{- define "topology-webhook.bindingUsers" -}}
{{- concat (include "topology-webhook.trustedUsers" . | fromJsonArray) .Values.settings.advanced.schedulerUsers | uniq | toJson }}
{{- end }}
