//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestUpgradeInContainers replaces the containers of the release before this one, node by node, the leader last, as
// docs/operations.md says, then takes all back, replaces them for good and raises the feature level. A client opens and
// closes sessions all the time. No session ends or is without a promise. Then a container of the former release is kept
// out, on the volume of its node.
func TestUpgradeInContainers(t *testing.T) {
	former := releaseBefore(t)
	t.Parallel()
	x := newSwapping(t, former)
	x.swap("before.yaml", x.c.all()...)
	x.serving()
	x.held = x.l.settled(10, 2*minTimeout, x.c.all()...)
	x.calm = x.l.settled(10, 3*minTimeout, x.c.all()...)
	loaded := x.load()
	began := time.Now()
	for _, files := range []string{"", "before.yaml", ""} {
		x.rolls(files)
		x.noTree()
	}
	took(t, "nine containers were replaced in", time.Since(began))
	x.raise()
	loaded()
	x.keptOut()
	x.l.servesOn(x.c.all()...)
	x.l.noneLapsed(slices.Concat(x.held, x.calm))
}

// swapping is an upgrade whose nodes are containers, which are replaced on their volumes. Of upgrade it uses what only
// asks the nodes.
type swapping struct {
	*upgrade
	// version is what nodes of the former release say of themselves.
	version string
}

func newSwapping(t *testing.T, former release) *swapping {
	t.Helper()
	c := planned(t, 3, "upgrade.yaml")
	t.Cleanup(c.down)
	return &swapping{&upgrade{processes: &processes{c: c}, t: t, l: c.newLedger()}, filepath.Base(string(former))}
}

// swap replaces the containers of nodes, or starts the first ones. Further compose files change them.
func (x *swapping) swap(files string, nodes ...int) {
	x.t.Helper()
	args := slices.Clone(x.c.compose)
	if files != "" {
		args = append(args, "-f", files)
	}
	args = append(args, "up", "-d", "--no-deps")
	for _, n := range nodes {
		args = append(args, service(n))
	}
	if _, err := command(x.c.env, args...); err != nil {
		x.t.Fatal(err)
	}
}

// rolls replaces all containers, the leader last, and checks which release each new one runs.
func (x *swapping) rolls(files string) {
	x.t.Helper()
	leader, others := x.serving()
	for _, n := range append(others, leader) {
		was := x.c.container(n)
		x.swap(files, n)
		if x.c.container(n) == was {
			x.t.Fatalf("node %d has its former container", n)
		}
		x.serving()
		s, err := x.c.status(n)
		if is := s.Version == x.version; err != nil || is != (files != "") {
			x.t.Errorf("node %d runs release %s, %v; the former one is %s: want that: %v", n, s.Version, err, x.version,
				files != "")
		}
	}
}

// keptOut starts the former release on the volume of a node that has the tree. It ends and says why, and this release
// goes on with the volume.
func (x *swapping) keptOut() {
	x.t.Helper()
	_, others := x.serving()
	n := others[0]
	x.swap("before.yaml", n)
	x.c.await(healWithin, fmt.Sprintf("node %d says that it cannot read its volume", n), func() (bool, string) {
		logs := x.c.logs(n)
		return strings.Contains(logs, "it was written by a newer version"), tail(logs, 5)
	})
	x.c.await(healWithin, "the former release has ended with an error", func() (bool, string) {
		ends := must(x.t, "docker", "inspect", "-f", "{{.RestartCount}} {{.State.ExitCode}}", x.c.container(n))
		return ends != "0 0", ends
	})
	if s, err := x.c.status(n); err == nil && s.Ready {
		x.t.Errorf("node %d serves in the former release: %+v", n, s)
	}
	x.swap("", n)
	x.serving()
	x.ephemerals(len(x.held) + len(x.calm) + 1)
}
