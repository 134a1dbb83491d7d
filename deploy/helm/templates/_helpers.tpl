{{- define "faultline.labels" -}}
app.kubernetes.io/name: faultline
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "faultline.selector" -}}
app.kubernetes.io/name: faultline
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "faultline.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- /* A value of one part, else the common one. Takes the root, the part's values `of` and the name `key`. */}}
{{- define "faultline.value" -}}
{{- with get .of .key | default (get .root.Values .key) }}{{ toYaml . }}{{ end }}
{{- end }}

{{- /* What changes restart pods: environment variables are read at the start of a part. A Secret is seen only by a
helm that reaches the cluster, so not by `helm template`. */}}
{{- define "faultline.annotations" -}}
checksum/settings: {{ toYaml .root.Values.settings | sha256sum }}
{{- range $name := compact (list .root.Values.secrets.settings .root.Values.secrets.store) }}
checksum/secret-{{ $name }}: {{ (lookup "v1" "Secret" $.root.Release.Namespace $name).data | toYaml | sha256sum }}
{{- end }}
{{- with include "faultline.value" (dict "root" .root "of" .of "key" "podAnnotations") }}
{{ . }}
{{- end }}
{{- end }}

{{- /* What every pod has: no root, no token of a service account, nothing writable but its data. */}}
{{- define "faultline.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with get .of "priorityClassName" | default .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- range $key := list "affinity" "nodeSelector" "tolerations" }}
{{- with include "faultline.value" (dict "root" $.root "of" $.of "key" $key) }}
{{ $key }}: {{ . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* For pods that start after the release's own objects; a hook before the installation has neither. */}}
{{- define "faultline.account" -}}
serviceAccountName: {{ .Values.serviceAccount.name | default (ternary .Release.Name "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "faultline.volumes" -}}
- name: data
  persistentVolumeClaim: { claimName: {{ .root.Values.data.existingClaim | default (printf "%s-data" .root.Release.Name) }} }
- name: tmp
  emptyDir: {}
{{- with include "faultline.value" (dict "root" .root "of" .of "key" "extraVolumes") }}
{{ . }}
{{- end }}
{{- end }}

{{- define "faultline.mounts" -}}
- { name: data, mountPath: /var/lib/faultline }
- { name: tmp, mountPath: /tmp }
{{- with include "faultline.value" (dict "root" .root "of" .of "key" "extraVolumeMounts") }}
{{ . }}
{{- end }}
{{- end }}

{{- define "faultline.container" -}}
image: {{ include "faultline.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{- define "faultline.secrets" -}}
- secretRef: { name: {{ .Values.secrets.settings }} }
{{- with .Values.secrets.store }}
- secretRef: { name: {{ . }} }
{{- end }}
{{- end }}

{{- /* Asks whether the process works, not only whether it is there. It needs neither database nor queue. */}}
{{- define "faultline.probe" -}}
exec: { command: [faultline, alive, {{ . }}] }
timeoutSeconds: 10
{{- end }}
