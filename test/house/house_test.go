// Package house checks what a program that uses the SDK links. The arrows between packages are depguard's, in
// .golangci.yml.
package house

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The SDK brings no part of a server into a user's program: no port, no budgets, no health service, no reflection, no
// consensus. Nor does it bring Prometheus: client/recipes/metrics does, to those who import it.
func TestTheSDKLinksNoServer(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "holdfast/client", "holdfast/client/recipes")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	linked := strings.Fields(string(bytes.TrimSpace(out)))
	if !slices.Contains(linked, "holdfast/transport/dial") {
		t.Fatal("the SDK does not link transport/dial: this is not the SDK's list of packages")
	}
	for _, of := range []string{
		"holdfast/transport/port", "holdfast/transport/clientport", "holdfast/transport/peerport",
		"holdfast/transport/gate",
		"holdfast/transport/raftnet", "holdfast/node", "holdfast/fsm", "holdfast/leader", "holdfast/learner",
		"google.golang.org/grpc/health", "google.golang.org/grpc/reflection", "github.com/hashicorp/raft",
		"golang.org/x/time/rate", "github.com/prometheus/client_golang/prometheus",
	} {
		if slices.Contains(linked, of) {
			t.Errorf("the SDK links %s", of)
		}
	}
}
