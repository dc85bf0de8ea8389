{{- define "roofline.labels" -}}
app.kubernetes.io/name: roofline
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{ include "roofline.selector" . }}
{{- end }}

{{- define "roofline.selector" -}}
roofline/release: {{ .root.Release.Name }}
roofline/part: {{ .part }}
{{- end }}

{{- define "roofline.image" -}}
{{- $image := .root.Values.image -}}
{{- $name := printf "roofline-%s" .part -}}
{{- if $image.registry }}{{ $name = printf "%s/%s" (trimSuffix "/" $image.registry) $name }}{{ end -}}
{{- if .digest }}{{ printf "%s@%s" $name .digest }}{{ else }}{{ printf "%s:%s" $name (default .root.Chart.AppVersion $image.tag) }}{{ end -}}
{{- end }}

{{- define "roofline.pull" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end }}
