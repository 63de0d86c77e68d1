package sim

import (
	"context"
	"slices"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/sim/faults"
	"holdfast/test/sim/history"
)

// choked runs a cluster of three with clients, and passes it to do when it serves.
func choked(t *testing.T, seed uint64, do func(ctx context.Context, w *world)) {
	t.Helper()
	undisturbed(t, newReport(seed, 3), do)
}

// undisturbed is choked with a report.
func undisturbed(t *testing.T, r *report, do func(ctx context.Context, w *world)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0)))
		w := newWorld(t, r)
		for _, name := range w.names {
			w.Start(name)
		}
		p := w.population()
		w.clients = p.names()
		running, stop := context.WithCancel(context.Background())
		p.begin(running)
		sleep(running, recovery)
		do(running, w)
		p.rest()
		sleep(running, recovery)
		p.testify(running)
		stop()
		p.wait()
		w.record.Add(history.Event{Kind: history.Finished})
		p.stop()
		w.stop()
		w.judge(nil)
	})
}

// cutPeerPorts cuts the peer ports of some nodes, and returns a function that reconnects them. The history records a
// fault: the checker must not consider the cluster calm.
func (w *world) cutPeerPorts(who string, names ...string) (mend func()) {
	const text = "cut peer ports"
	faultLog{w}.Began(faults.NoRounds, who, text)
	for _, name := range names {
		w.Choke(name + ":7402")
	}
	return func() {
		for _, name := range names {
			w.Unchoke(name + ":7402")
		}
		faultLog{w}.Ended(faults.NoRounds, who, text, true)
	}
}

// serving returns the nodes that give promises.
func (w *world) serving() []string {
	var names []string
	for _, name := range w.names {
		if s, err := w.life(name).node.Status(w.t.Context()); err == nil && s.Ready {
			names = append(names, name)
		}
	}
	return names
}

// TestPeerPortOfLeader cuts the leader's peer port and nothing else. Raft alone would let it lead for ever, and no node
// would be ready.
func TestPeerPortOfLeader(t *testing.T) {
	choked(t, 14, func(ctx context.Context, w *world) {
		old := w.Leader()
		mend := w.cutPeerPorts(old, old)
		limit := w.config(old, "").Raft.StallTimeout
		sleep(ctx, limit/2)
		if now := w.Leader(); now != old {
			t.Errorf("%q led, and %q leads %v after its peer port was cut: want no change before %v", old, now,
				limit/2, limit)
		}
		sleep(ctx, limit/2+3*time.Second)
		// The former leader reaches the others' peer ports.
		if now, serving := w.Leader(), w.serving(); now == old || !slices.Equal(serving, w.names) {
			t.Errorf("%q leads, and %v serve, 3 s after the stall limit: want another leader than %q, and all nodes",
				now, serving, old)
		}
		mend()
	})
}

// TestPeerPortsOfAll cuts all peer ports: leadership moves from node to node, and no living client loses a session.
func TestPeerPortsOfAll(t *testing.T) {
	choked(t, 12, func(ctx context.Context, w *world) {
		mend := w.cutPeerPorts("", w.names...)
		led := make(map[string]bool)
		for range 20 {
			sleep(ctx, time.Second)
			if leads := w.Leader(); leads != "" {
				led[leads] = true
			}
			if serving := w.serving(); len(led) > 1 && len(serving) > 0 {
				t.Errorf("nodes %v serve, though no round can be good; %v led", serving, led)
			}
		}
		if len(led) < 2 {
			t.Errorf("only %v led in 20 s without a good round", led)
		}
		mend()
	})
}
