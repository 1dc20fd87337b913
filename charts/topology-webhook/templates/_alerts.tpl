{{/* files/alerts.yaml with what prometheusRule.alerts changes in it. A threshold is the number at the end of an expression. */}}
{{- define "topology-webhook.alerts" -}}
{{- $changes := .Values.prometheusRule.alerts }}
{{- $unknown := keys $changes }}
{{- $groups := list }}
{{- range $group := (.Files.Get "files/alerts.yaml" | fromYaml).groups }}
  {{- $rules := list }}
  {{- range $rule := $group.rules }}
    {{- $unknown = without $unknown $rule.alert }}
    {{- $change := get $changes $rule.alert | default dict }}
    {{- if hasKey $change "threshold" }}
      {{- $end := "[0-9.]+\\s*$" }}
      {{- if not (regexMatch $end $rule.expr) }}
        {{- fail (printf "prometheusRule.alerts.%s.threshold: this alert has no threshold" $rule.alert) }}
      {{- end }}
      {{- $_ := set $rule "expr" (regexReplaceAll $end $rule.expr (toString $change.threshold)) }}
    {{- end }}
    {{- with $.Values.prometheusRule.runbookUrl }}
      {{- $_ := set $rule.annotations "runbook_url" (replace "docs/metrics.md" . $rule.annotations.runbook_url) }}
    {{- end }}
    {{- with $change.for }}
      {{- $_ := set $rule "for" . }}
    {{- end }}
    {{- $_ := set $rule "labels" (mergeOverwrite (dict) (default dict $rule.labels) $.Values.prometheusRule.ruleLabels (default dict $change.labels)) }}
    {{- if dig "enabled" true $change }}
      {{- $rules = append $rules $rule }}
    {{- end }}
  {{- end }}
  {{- $groups = append $groups (set $group "rules" $rules) }}
{{- end }}
{{- with $unknown }}
  {{- fail (printf "prometheusRule.alerts: there is no alert %s" (sortAlpha . | join ", ")) }}
{{- end }}
{{- dict "groups" $groups | toYaml }}
{{- end }}
