{{- define "kiln.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "kiln.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Of the pod of `helm test`, which no Service selects. */}}
{{- define "kiln.testLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kiln.labels" -}}
{{ include "kiln.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "kiln.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{- define "kiln.serviceAccount" -}}
{{- default (ternary (include "kiln.name" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{- define "kiln.hasTenants" -}}
{{- if or .Values.tenants.secretName .Values.tenants.text }}yes{{ end }}
{{- end }}

{{- /* Four fifths of cache.size: a pod whose volume is fuller than that says would be evicted. */}}
{{- define "kiln.cacheBytes" -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- $number := regexFind "^[0-9.]+" .Values.cache.size }}
{{- mulf (float64 $number) (get $units (trimPrefix $number .Values.cache.size)) 0.8 | floor | int64 }}
{{- end }}

{{- /* YAML's numbers are floats here, and Go would write a large one as 8.589934592e+09. */}}
{{- define "kiln.setting" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- /* Who may use it has to be said: what is forgotten here would be open. */}}
{{- define "kiln.check" -}}
{{- if and .Values.tenants.secretName .Values.tenants.text }}{{ fail "tenants: give secretName or text, not both" }}{{ end }}
{{- if not .Values.insecure }}
{{- if not (include "kiln.hasTenants" .) }}{{ fail "nothing says who may use the server: set tenants.secretName or tenants.text, or insecure: true" }}{{ end }}
{{- if not .Values.tls.secretName }}{{ fail "tokens would travel in the clear: set tls.secretName, or insecure: true where something else encrypts" }}{{ end }}
{{- /* kilnd's own check of these is off, as its insecure, set for the admin port, is one for all ports. */}}
{{- if and .Values.admin.enabled (not .Values.networkPolicy.enabled) }}{{ fail "the admin port asks nobody and would be everybody's: leave networkPolicy.enabled true, or set insecure: true where something else says who reaches it" }}{{ end }}
{{- with get .Values.settings "http_listen" | toString }}
{{- if not (regexMatch "^(localhost|127(\\.[0-9]+){3}|\\[::1\\]):[0-9]+$" .) }}{{ fail (printf "settings.http_listen: tokens would travel in the clear to %s: listen on 127.0.0.1, or set insecure: true where something else does" .) }}{{ end }}
{{- end }}
{{- end }}
{{- if and .Values.tls.secretName (not .Values.admin.enabled) }}{{ fail "the kubelet's gRPC probes do not encrypt: with tls it asks the admin port, so leave admin.enabled true" }}{{ end }}
{{- if and .Values.autoscaling.enabled (not .Values.admin.enabled) }}{{ fail "autoscaling is on a metric of the admin port: leave admin.enabled true" }}{{ end }}
{{- end }}

{{- /* How the kubelet asks. Its gRPC probes speak no TLS. */}}
{{- define "kiln.ready" -}}
{{- if .Values.tls.secretName }}httpGet: {path: /readyz, port: admin}{{ else }}grpc: {port: {{ .Values.service.port }}}{{ end }}
{{- end }}

{{- define "kiln.alive" -}}
{{- if .Values.admin.enabled }}httpGet: {path: /healthz, port: admin}{{ else }}tcpSocket: {port: grpc}{{ end }}
{{- end }}
