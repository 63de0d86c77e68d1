package deploy

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const appLabel = "app.kubernetes.io/name"

// manifests are the documents of deploy/kubernetes.
type manifests struct {
	set      apps.StatefulSet
	budget   policy.PodDisruptionBudget
	services map[string]core.Service
	files    []string
}

// load decodes all documents strictly: an unknown field, one that is given twice, or an unknown kind is an error.
func load(t *testing.T) *manifests {
	t.Helper()
	m := &manifests{services: map[string]core.Service{}}
	files, err := filepath.Glob("../../deploy/kubernetes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	capital := regexp.MustCompile(`(?m)^\s*(?:- )?[A-Z]\w*: `)
	for _, file := range files {
		text := read(t, file)
		if key := capital.FindString(text); key != "" { // the decoder takes names in any case, Kubernetes does not
			t.Errorf("%s: the field %q begins with a capital letter", file, key)
		}
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		m.files = append(m.files, filepath.Base(file))
		for _, document := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
			m.decode(t, file, []byte(document))
		}
	}
	return m
}

func (m *manifests) decode(t *testing.T, file string, document []byte) {
	t.Helper()
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(document, &head); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var service core.Service
	into, ok := map[string]any{
		"apps/v1 StatefulSet": &m.set, "policy/v1 PodDisruptionBudget": &m.budget, "v1 Service": &service,
		"v1 Namespace": &core.Namespace{},
	}[head.APIVersion+" "+head.Kind]
	if !ok {
		t.Fatalf("%s: %q %q is not known here", file, head.APIVersion, head.Kind)
	}
	if err := yaml.UnmarshalStrict(document, into); err != nil {
		t.Errorf("%s: %v", file, err)
	}
	if service.Name != "" {
		m.services[service.Name] = service
	}
}

// What belongs together in the manifests fits together.
func TestManifests(t *testing.T) {
	m := load(t)
	pod := m.set.Spec.Template
	if len(pod.Spec.Containers) != 1 {
		t.Fatalf("%d containers, want one", len(pod.Spec.Containers))
	}
	node := pod.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range node.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, name := range []string{"holdfast", "holdfast-peers"} {
		service := m.services[name]
		if pod.Labels[appLabel] == "" || service.Spec.Selector[appLabel] != pod.Labels[appLabel] {
			t.Errorf("Service %q selects %v, the pods have %v", name, service.Spec.Selector, pod.Labels)
		}
		for _, p := range service.Spec.Ports {
			if ports[p.TargetPort.StrVal] != p.Port {
				t.Errorf("Service %s: port %d is %q of the container, which has %v", name, p.Port, p.TargetPort.StrVal, ports)
			}
		}
	}
	peers := m.services["holdfast-peers"].Spec
	if peers.ClusterIP != core.ClusterIPNone || !peers.PublishNotReadyAddresses ||
		m.set.Spec.ServiceName != "holdfast-peers" {
		t.Error("nodes find each other before they are ready, by the names of a headless Service")
	}
	if m.set.Spec.PodManagementPolicy != apps.ParallelPodManagement {
		t.Error("a new cluster waits until all nodes have met: they must start together")
	}
	if b := m.budget.Spec; b.MaxUnavailable == nil || b.MaxUnavailable.IntVal != 1 ||
		b.Selector.MatchLabels[appLabel] != pod.Labels[appLabel] {
		t.Error("the budget must allow one node of this set at a time")
	}
	if p := node.ReadinessProbe; p == nil || p.HTTPGet == nil || p.HTTPGet.Path != "/healthz" {
		t.Error("readiness is /healthz")
	}
	if p := node.LivenessProbe; p == nil || p.HTTPGet != nil {
		t.Error("/healthz must not end a node that waits for the others")
	}
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace == nil || *grace <= 10 {
		t.Error("the node needs 10 s to stop, after it was drained")
	}
	if s := node.SecurityContext; !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation ||
		!slices.Contains(s.Capabilities.Drop, "ALL") || !*pod.Spec.SecurityContext.RunAsNonRoot {
		t.Error("the container must have no rights that it does not need")
	}
	checkEnvironment(t, m, node)
	checkMemory(t, node)
}

// checkMemory checks that the state and the tree fit into the memory limit, as docs/operations/install.md sizes nodes.
func checkMemory(t *testing.T, node core.Container) {
	t.Helper()
	bytes := 0.0
	for _, e := range node.Env {
		if e.Name == "HOLDFAST_MAX_STATE_BYTES" || e.Name == "HOLDFAST_MAX_TREE_BYTES" {
			n, err := strconv.ParseFloat(e.Value, 64)
			if err != nil {
				t.Error(err)
			}
			bytes += n
		}
	}
	if limit := node.Resources.Limits.Memory().AsApproximateFloat64(); bytes == 0 || 2.5*bytes > limit {
		t.Errorf("2.5 x %.0f bytes of state and tree do not fit into the memory limit of %.0f", bytes, limit)
	}
}

// checkEnvironment checks that each pod's number is its node's, that nodes have the names of pods, and that each
// variable is a setting.
func checkEnvironment(t *testing.T, m *manifests, node core.Container) {
	t.Helper()
	if m.set.Spec.Ordinals == nil || m.set.Spec.Ordinals.Start != 1 {
		t.Fatal("nodes are numbered from 1, so pods must be too")
	}
	var peers []string
	for n := range int(*m.set.Spec.Replicas) {
		peers = append(peers, fmt.Sprintf("%d=%s-%d.%s", n+1, m.set.Name, n+1, m.set.Spec.ServiceName))
	}
	settings, given := read(t, "../../docs/configuration.md"), map[string]core.EnvVar{}
	for _, e := range node.Env {
		given[e.Name] = e
		if name := strings.ToLower(strings.TrimPrefix(e.Name, "HOLDFAST_")); !strings.Contains(settings, "`"+name+"`") {
			t.Errorf("%s is no setting", e.Name)
		}
	}
	if got := given["HOLDFAST_PEERS"].Value; got != strings.Join(peers, ",") {
		t.Errorf("peers are %q, want %v", got, peers)
	}
	from := given["HOLDFAST_NODE"].ValueFrom
	if from == nil || from.FieldRef == nil || from.FieldRef.FieldPath != "metadata.labels['"+apps.PodIndexLabel+"']" {
		t.Error("the node's number must be the pod's")
	}
	if !strings.HasPrefix(given["HOLDFAST_DATA_DIR"].Value, node.VolumeMounts[0].MountPath) {
		t.Error("the data directory must be on the volume")
	}
}

// The kustomization names every file.
func TestKustomization(t *testing.T) {
	var k struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Namespace  string           `json:"namespace"`
		Resources  []string         `json:"resources"`
		Images     []map[string]any `json:"images"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "../../deploy/kubernetes/kustomization.yaml")), &k); err != nil {
		t.Fatal(err)
	}
	slices.Sort(k.Resources)
	if files := load(t).files; !slices.Equal(k.Resources, files) {
		t.Errorf("the kustomization has %v, the folder %v", k.Resources, files)
	}
}
