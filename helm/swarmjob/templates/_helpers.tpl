{{- define "swarmjob.name" -}}
{{- default "swarm-operator" .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "swarmjob.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "swarmjob.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "swarmjob.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "swarmjob.selectorLabels" -}}
app.kubernetes.io/name: {{ include "swarmjob.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "swarmjob.labels" -}}
{{ include "swarmjob.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: swarmjob
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "swarmjob.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "swarmjob.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is needed where serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* An image reference. Argument: a list of the image's values and the root. */}}
{{- define "swarmjob.image" -}}
{{- $image := index . 0 }}{{ $root := index . 1 }}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository (default $root.Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{/* Fails with a message unless the cluster has the CRDs of the Prometheus Operator. Argument: a list of the
     value that asks for it and the root. */}}
{{- define "swarmjob.needsPrometheusOperator" -}}
{{- $root := index . 1 }}
{{- if not ($root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1") }}
{{- fail (printf "%s is true, but the cluster does not know monitoring.coreos.com/v1: install the Prometheus Operator first (for `helm template`, say --api-versions monitoring.coreos.com/v1)" (index . 0)) }}
{{- end }}
{{- end }}

{{/* Labels by which clouds and autoscalers mark nodes that may vanish. */}}
{{- define "swarmjob.offSpotNodes" -}}
- {key: karpenter.sh/capacity-type, operator: NotIn, values: [spot]}
- {key: eks.amazonaws.com/capacityType, operator: NotIn, values: [SPOT]}
- {key: cloud.google.com/gke-spot, operator: NotIn, values: ["true"]}
- {key: cloud.google.com/gke-preemptible, operator: NotIn, values: ["true"]}
- {key: kubernetes.azure.com/scalesetpriority, operator: NotIn, values: [spot]}
- {key: node.kubernetes.io/lifecycle, operator: NotIn, values: [spot]}
- {key: swarmjob.dev/capacity, operator: NotIn, values: [spot]}
- {key: swarmjob.dev/spot, operator: NotIn, values: ["true"]}
{{- end }}

{{- define "swarmjob.affinity" -}}
{{- $affinity := deepCopy .Values.affinity }}
{{- if not (hasKey $affinity "nodeAffinity") }}
{{- $expressions := include "swarmjob.offSpotNodes" . | fromYamlArray }}
{{- if eq .Values.avoidSpotNodes "Required" }}
{{- $term := dict "nodeSelectorTerms" (list (dict "matchExpressions" $expressions)) }}
{{- $_ := set $affinity "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" $term) }}
{{- else if eq .Values.avoidSpotNodes "Preferred" }}
{{- $term := dict "weight" 100 "preference" (dict "matchExpressions" $expressions) }}
{{- $_ := set $affinity "nodeAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list $term)) }}
{{- end }}
{{- end }}
{{- toYaml $affinity }}
{{- end }}

{{/* The rights of the operator in every namespace whose SwarmJobs it manages. */}}
{{- define "swarmjob.satelliteRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, create, patch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, create, patch, delete]  # of jobs that are gone
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]  # home is given those of its workers alone
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, create, patch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices/restricted]
  verbs: [create]  # OpenShift confines addresses
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, create, patch]
{{- end }}

{{- define "swarmjob.rules" -}}
- apiGroups: [swarmjob.dev]
  resources: [swarmjobs]
  verbs: [get, list, watch, delete]  # delete: ttlSecondsAfterFinished
- apiGroups: [swarmjob.dev]
  resources: [swarmjobs/status]
  verbs: [update]
- apiGroups: [swarmjob.dev]
  resources: [swarmjobs/scale]
  verbs: [patch]  # to write the number of workers where a manifest leaves it open
- apiGroups: [swarmjob.dev]
  resources: [swarmjobs/finalizers]
  verbs: [update]  # to own the objects it creates, if ownership is checked
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [services, configmaps]
  verbs: [get, create, patch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]  # not list: it reads only the Secrets of its jobs, by name
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create, patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{/* What the operator needs besides where SwarmJobs wait in queues of Kueue: in their namespaces, and in the cluster. */}}
{{- define "swarmjob.kueueRules" -}}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [get, list, watch, create, update, delete]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads/status]
  verbs: [update]  # to give quota back, and to tell that a job is ready or has finished
{{- end }}

{{- define "swarmjob.kueueClusterRules" -}}
- apiGroups: [kueue.x-k8s.io]
  resources: [resourceflavors, workloadpriorityclasses]
  verbs: [get]
{{- end }}

{{/* What Kueue's controller needs for MultiKueue, as Kueue's page on external frameworks has it. */}}
{{- define "swarmjob.multiKueueRules" -}}
- apiGroups: [swarmjob.dev]
  resources: [swarmjobs, swarmjobs/status]
  verbs: [get, list, watch, patch, update]
{{- end }}

{{/* "true" where others call the operator: satellites, or workers that prove which pods they are. */}}
{{- define "swarmjob.isHome" -}}
{{- or .Values.satellites.enabled .Values.proof.enabled -}}
{{- end }}

{{/* "true" where the load balancer of the gateway tells the operator how other clusters reach it. */}}
{{- define "swarmjob.gatewayTells" -}}
{{- $connected := or .Values.satellites.enabled .Values.satellite.enabled -}}
{{- and .Values.gateway.enabled (eq .Values.gateway.service.type "LoadBalancer") $connected -}}
{{- end }}
