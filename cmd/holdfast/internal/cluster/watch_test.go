package cluster

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
	"holdfast/session"
)

// events returns the events between two states as "WHO EVENT: TEXT".
func events(was, is *clusterState) (all []string) {
	for _, e := range eventsBetween(was, is) {
		who := "cluster"
		if e.Node != 0 {
			who = cli.Number(e.Node)
		}
		all = append(all, who+" "+e.Event+": "+e.Text)
	}
	return all
}

// stateWith is a cluster of three nodes, of which the second leads.
func stateWith(change func(l *clusterState)) *clusterState {
	l := &clusterState{members: make(map[session.Node]client.Member)}
	for n := session.Node(1); n <= 3; n++ {
		s := client.Status{
			Node: n, Role: "follower", Term: 4, Leader: 2, Ready: true, Version: "v1", ClusterID: "c", FeatureLevel: 1,
		}
		l.nodes = append(l.nodes, nodeState{endpoint: "n" + cli.Number(n), status: s})
		l.members[n] = client.Member{Node: n, Voter: true}
	}
	if change != nil {
		change(l)
	}
	return l
}

func TestClusterEvents(t *testing.T) {
	of := func(i int, change func(s *client.Status)) func(l *clusterState) {
		return func(l *clusterState) { change(&l.nodes[i].status) }
	}
	gone := func(i int) func(l *clusterState) {
		return func(l *clusterState) { l.nodes[i].unreachable, l.nodes[i].status = "refused", client.Status{} }
	}
	for name, c := range map[string]struct {
		was, is func(l *clusterState)
		want    []string
	}{
		"nothing": {nil, nil, nil},
		"silent":  {nil, gone(0), []string{"1 unreachable: does not answer: refused"}},
		"silent still": {
			gone(0), gone(0), nil,
		},
		"answers again": {gone(0), nil, []string{"1 reachable: follower of term 4, version v1"}},
		"another leads": {
			nil, func(l *clusterState) {
				for i := range l.nodes {
					l.nodes[i].status.Leader, l.nodes[i].status.Term = 3, 5
				}
			},
			[]string{"cluster leader: node 3 leads term 5"},
		},
		"one knows the next leader before the others": {
			nil, of(0, func(s *client.Status) { s.Term, s.Leader = 5, 1 }), []string{"cluster leader: node 1 leads term 5"},
		},
		"no leader": {
			nil, func(l *clusterState) {
				for i := range l.nodes {
					l.nodes[i].status.Leader = 0
				}
			},
			[]string{"cluster no-leader: no leader in term 4"},
		},
		"one that is cut off stands for election": {
			nil, of(0, func(s *client.Status) { s.Term, s.Leader = 9, 0 }), nil,
		},
		"does not serve": {
			nil, of(2, func(s *client.Status) { s.Ready, s.NotReadyBecause = false, "no round" }),
			[]string{"3 not-ready: is not ready: no round"},
		},
		"does not serve for longer": {
			of(2, func(s *client.Status) { s.Ready, s.NotReadyBecause = false, "stalled: a write has lasted 2s" }),
			of(2, func(s *client.Status) { s.Ready, s.NotReadyBecause = false, "stalled: a write has lasted 3s" }), nil,
		},
		"does not serve for another reason": {
			of(2, func(s *client.Status) { s.Ready, s.NotReadyBecause = false, "stalled: a write has lasted 2s" }),
			of(2, func(s *client.Status) { s.Ready, s.NotReadyBecause = false, "no round" }),
			[]string{"3 not-ready: is not ready: no round"},
		},
		"serves": {of(2, func(s *client.Status) { s.Ready = false }), nil, []string{"3 ready: is ready"}},
		"warns":  {nil, of(1, func(s *client.Status) { s.Warning = "disk 91% full" }), []string{"2 warning: disk 91% full"}},
		"warns with another figure": {
			of(1, func(s *client.Status) { s.Warning = "disk 91% full" }),
			of(1, func(s *client.Status) { s.Warning = "disk 92% full" }), nil,
		},
		"warns no longer": {
			of(1, func(s *client.Status) { s.Warning = "disk 91% full" }), nil,
			[]string{"2 warning-cleared: no longer warns: disk 91% full"},
		},
		"drain": {nil, of(0, func(s *client.Status) { s.Drain = &client.Drain{} }), []string{"1 draining: is being drained"}},
		"drained": {
			of(0, func(s *client.Status) { s.Drain = &client.Drain{} }),
			of(0, func(s *client.Status) { s.Drain = &client.Drain{Done: true} }),
			[]string{"1 drained: is drained"},
		},
		"undrain": {
			of(0, func(s *client.Status) { s.Drain = &client.Drain{} }), nil,
			[]string{"1 undrained: is no longer being drained"},
		},
		"frozen": {
			nil, func(l *clusterState) {
				for i := range l.nodes {
					l.nodes[i].status.Freezing = &client.Freezing{Left: time.Minute, By: "ops", Why: "switches"}
				}
			},
			[]string{"cluster frozen: expiry is suspended for 1m0s, by ops: switches"},
		},
		"members": {
			func(l *clusterState) { l.members[9] = client.Member{Node: 9} },
			func(l *clusterState) {
				delete(l.members, 1)
				l.members[2] = client.Member{Node: 2}
				l.members[9] = client.Member{Node: 9, Voter: true}
				l.members[10] = client.Member{Node: 10}
			},
			[]string{
				"1 removed: is no longer a member", "2 demoted: is an observer now", "9 promoted: is a voter now",
				"10 added: joined as an observer",
			},
		},
		"members are not known": {nil, func(l *clusterState) { l.members = nil }, nil},
	} {
		if got := events(stateWith(c.was), stateWith(c.is)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	first := events(nil, stateWith(gone(0)))
	want := []string{
		" unreachable: does not answer: refused", "2 reachable: follower of term 4, version v1",
		"3 reachable: follower of term 4, version v1", "cluster leader: node 2 leads term 4",
	}
	first[0] = strings.TrimPrefix(first[0], "cluster")
	if !slices.Equal(first, want) {
		t.Errorf("at first %q, want %q", first, want)
	}
}

// A node's state from before its silence is compared with its state when it is back.
func TestStateIsCarriedOverSilence(t *testing.T) {
	was := stateWith(nil)
	unreachable := stateWith(func(l *clusterState) { l.nodes[0].unreachable, l.members = "refused", nil })
	unreachable.nodes[0].status = client.Status{}
	carried := unreachable.carrying(was)
	if carried.nodes[0].status.Node != 1 || len(carried.members) != 3 {
		t.Errorf("carried %+v", carried)
	}
}

// The command prints lines until its context ends; JSON has an object in each.
func TestClusterWatch(t *testing.T) {
	n := fakenode.Start(t)
	t.Setenv(cli.EndpointsVariable, n.Address)
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		args := []string{"cluster", "watch", "--interval", "1m", "-o", "json"} // the first read shows everything
		ended <- clitest.Run(ctx, args, strings.NewReader(""), writer, io.Discard)
		_ = writer.Close()
	}()
	lines := json.NewDecoder(reader)
	var events []string
	for range 3 {
		var e clusterEvent
		if err := lines.Decode(&e); err != nil {
			t.Fatal(err)
		}
		if e.Time.IsZero() || e.Text == "" {
			t.Errorf("an event without its time or text: %+v", e)
		}
		events = append(events, e.Event)
	}
	if want := []string{"reachable", "not-ready", "leader"}; !slices.Equal(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
	cancel()
	if code := <-ended; code != cli.ExitDone {
		t.Errorf("exit code %d after the end", code)
	}
	if code, _, stderr := clitest.Execute(t, "", "cluster", "watch", "--interval", "99ms"); code != cli.ExitUsage {
		t.Errorf("--interval 99ms: exit code %d, %q", code, stderr)
	}
}
