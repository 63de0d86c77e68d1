package learner

import (
	"errors"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// W8, I11: the empty tree of a node that has not applied the founding of the cluster is shown to nobody, whatever the
// request allows: clients would mistake it for the end of every entry.
func TestW8TheTreeBeforeTheFoundingIsShownToNobody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Tree = emptyTree(false)
		w := newWorldOf(t, cfg)
		conn := w.conn.Tree([]tree.Principal{{Scheme: tree.Super}}, func() {})
		defer conn.Close()
		key := uint64(0)
		ask := func(o tree.ReadOptions) map[string]error {
			key += 2
			return map[string]error{
				"a read": conn.Read(session.TreeRead{
					Key: key, Query: tree.Query{Kind: tree.GetStat, Path: "/", Options: o},
				}),
				"watches": conn.AddWatches(session.TreeAddition{Key: key + 1, Addition: tree.Addition{
					Watches: []tree.WatchSpec{{Path: "/", Kind: tree.WatchRecursive}}, Options: o,
				}}),
			}
		}
		refuses := func(when string, want error) {
			t.Helper()
			for _, o := range []tree.ReadOptions{{}, {AllowStale: true}, {Seen: tree.StampAt(7, 1)}} {
				all := ask(o)
				all["sessions"] = w.server.WatchSessions(t.Context(), session.SessionWatch{Options: o},
					func([]session.SessionEvent) error { return errors.New("the watcher is told") })
				for what, err := range all {
					if !errors.Is(err, want) {
						t.Errorf("%s: %s, %+v: %v, want %v", when, what, o, err, want)
					}
				}
			}
		}
		refuses("without a leader", session.ErrNoLeader)
		w.follow().beat(session.Heartbeat{Good: 1, Committed: 1000})
		refuses("under a leader", session.ErrLagging)
		founded := emptyTree(true)
		founded.Index = 1
		w.server.AppliedTree(founded, nil, nil)
		for what, err := range ask(tree.ReadOptions{}) {
			if err != nil {
				t.Errorf("once the cluster is founded: %s: %v", what, err)
			}
		}
		w.settle()
		if told, ok := conn.Next(time.Now()); !ok || told.Answer == nil || told.Answer.Err != nil {
			t.Errorf("once the cluster is founded, the client is told %+v", told)
		}
	})
}
