// Package house checks what a program that uses the SDK links and fetches, and docs/limits.md against the code. The
// arrows between packages are depguard's, in .golangci.yml.
package house

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// servers are what makes a server: ports, budgets, health service, reflection, state, consensus.
var servers = []string{
	"holdfast/transport/port", "holdfast/transport/clientport", "holdfast/transport/peerport", "holdfast/transport/ratelimit",
	"holdfast/transport/raftnet", "holdfast/node", "holdfast/fsm", "holdfast/leader", "holdfast/learner",
	"google.golang.org/grpc/health", "google.golang.org/grpc/reflection", "github.com/hashicorp/raft",
	"golang.org/x/time/rate",
}

const prometheus = "github.com/prometheus/client_golang/prometheus"

// The SDK brings no part of a server into a user's program. Nor does it bring Prometheus: client/recipes/metrics does,
// to those who import it. Nor do the SDK's tests: "go mod tidy" of a user's program fetches the modules of the tests of
// the packages that the program imports.
func TestTheSDKLinksNoServer(t *testing.T) {
	for _, of := range []struct {
		packages []string
		links    string // proves that this is the list
		not      []string
	}{
		{[]string{"holdfast/client", "holdfast/client/recipes"}, "holdfast/transport/dial", append(servers, prometheus)},
		{[]string{"-test", "holdfast/client", "holdfast/client/recipes"}, "testing", append(servers, prometheus)},
		{[]string{"-test", "holdfast/client/recipes/metrics", "holdfast/fence"}, prometheus, servers},
	} {
		list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, of.packages...)...)
		out, err := list.Output()
		if err != nil {
			t.Fatalf("%v: %v", list, err)
		}
		linked := strings.Fields(string(out))
		if !slices.Contains(linked, of.links) {
			t.Fatalf("%v does not link %s: this is not the list of packages", of.packages, of.links)
		}
		for _, part := range of.not {
			if slices.Contains(linked, part) {
				t.Errorf("%v links %s", of.packages, part)
			}
		}
	}
}

// What a program with the SDK links besides the SDK. A module more is a decision of its own.
func TestModulesOfTheSDK(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}",
		"holdfast/client", "holdfast/client/recipes")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	linked := strings.Fields(string(out))
	slices.Sort(linked)
	want := []string{
		"github.com/fatih/color", "github.com/hashicorp/go-hclog", "github.com/mattn/go-colorable",
		"github.com/mattn/go-isatty", "golang.org/x/net", "golang.org/x/sys", "golang.org/x/text",
		"google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf", "holdfast",
	}
	if got := slices.Compact(linked); !slices.Equal(got, want) {
		t.Errorf("the SDK links the modules %q, want %q", got, want)
	}
}
