{{/* The spec of a pod that runs one command of the program and ends. Takes {root, account, container, args}. */}}
{{- define "topology-webhook.commandPod" -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ .account }}
enableServiceLinks: false
# Not OnFailure: the logs of a failed attempt would be gone.
restartPolicy: Never
{{- with include "topology-webhook.imagePullSecrets" .root }}
{{ . }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with $values.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- toYaml $values.podSecurityContext | nindent 2 }}
containers:
  - name: {{ .container }}
    image: {{ include "topology-webhook.image" .root }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    args: {{- toYaml .args | nindent 6 }}
    {{- with $values.resources }}
    resources: {{- toYaml . | nindent 6 }}
    {{- end }}
    securityContext: {{- toYaml $values.containerSecurityContext | nindent 6 }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
