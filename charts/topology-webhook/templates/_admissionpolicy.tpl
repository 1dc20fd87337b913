{{/*
CEL. The annotations and labels that only the service writes (OUTPUTS in webhook/admission/reserved_fields.py), each by its name:
a loop over the keys of a pod with thousands of annotations would cost the API server seconds.
*/}}
{{- define "topology-webhook.outputs" -}}
['scheduling.koordinator.sh/resource-status', 'topology-webhook.dev/domain', 'topology-webhook.dev/epoch',
'topology-webhook.dev/managed', 'topology-webhook.dev/numa', 'topology-webhook.dev/numa-defaults',
'topology-webhook.dev/numa-signature', 'topology-webhook.dev/placement', 'topology-webhook.dev/rank',
'topology-webhook.dev/role', 'topology-webhook.dev/steered']
{{- end }}

{{/* CEL. The annotations that the mutating webhook writes into pods at their creation, in their creators' name. */}}
{{- define "topology-webhook.writtenByMutation" -}}
['topology-webhook.dev/managed', 'topology-webhook.dev/numa-defaults', 'topology-webhook.dev/placement', 'topology-webhook.dev/steered']
{{- end }}

{{/* CEL. Takes object or oldObject: whether that object carries what only the service writes. */}}
{{- define "topology-webhook.carriesOutputs" -}}
{{ include "topology-webhook.outputs" . }}.exists(name,
name in {{ . }}.?metadata.annotations.orValue({}) || name in {{ . }}.?metadata.labels.orValue({}))
{{- end }}

{{/* CEL. Takes object or oldObject: whether that pod has the gate. */}}
{{- define "topology-webhook.hasGate" -}}
{{ . }}.?spec.schedulingGates.orValue([]).exists(gate, gate.name == 'topology-webhook.dev/placement')
{{- end }}

{{/* CEL. Users who may write the reserved fields. */}}
{{- define "topology-webhook.trustedUsers" -}}
{{- $own := printf "system:serviceaccount:%s:%s" .Release.Namespace (include "topology-webhook.serviceAccountName" .) }}
{{- prepend (include "topology-webhook.otherTrustedUsers" . | fromJsonArray) $own | uniq | toJson }}
{{- end }}

{{/* CEL. Whether the user may remove the gate, and change the text in the annotation placement. */}}
{{- define "topology-webhook.mayUngate" -}}
has(request.userInfo.groups) && request.userInfo.groups.exists(group, group in {{ toJson .Values.settings.trustedGroups }})
{{- end }}

{{/* CEL. Users whose Bindings may carry the reserved fields. */}}
{{- define "topology-webhook.bindingUsers" -}}
{{- concat (include "topology-webhook.trustedUsers" . | fromJsonArray) .Values.settings.schedulerUsers | uniq | toJson }}
{{- end }}
