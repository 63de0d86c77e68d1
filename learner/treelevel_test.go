package learner

import (
	"errors"
	"testing"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// W8, I11: that the cluster has no tree is final for a client, which ends its watches. A node that has just begun has
// no tree either, and says so only when it would know better.
func TestW8WhoSaysThatThereIsNoTree(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		conn := w.conn.Tree([]tree.Principal{{Scheme: tree.Super}}, func() {})
		defer conn.Close()
		refuses := func(when string, seen tree.Stamp, want error) {
			t.Helper()
			o := tree.ReadOptions{Seen: seen}
			added := conn.AddWatches(session.TreeAddition{Key: 1, Addition: tree.Addition{
				Watches: []tree.WatchSpec{{Path: "/", Kind: tree.WatchRecursive}}, Options: o,
			}})
			read := conn.Read(session.TreeRead{Key: 2, Query: tree.Query{Kind: tree.GetStat, Path: "/", Options: o}})
			watched := w.server.WatchSessions(t.Context(), session.SessionWatch{Options: o}, nil)
			for what, err := range map[string]error{"watches": added, "a read": read, "sessions": watched} {
				if !errors.Is(err, want) {
					t.Errorf("%s, client has seen %v: %s: %v, want %v", when, seen, what, err, want)
				}
			}
		}
		refuses("without a leader", 0, session.ErrNoLeader)
		w.follow().beat(session.Heartbeat{Good: 1})
		refuses("under a leader without a tree", 0, session.ErrNoTree)
		refuses("under a leader without a tree", tree.StampAt(7, 1), session.ErrLagging)
		if got := w.server.State().FeatureLevel; got != 0 {
			t.Errorf("under a leader without a tree: level %d", got)
		}
		w.leader.end()
		w.settle()
		l := newFakeLeader(t)
		<-l.toRelay
		l.toRelay <- session.LeaderMessage{Welcome: &session.Welcome{
			Term: 1, Leader: 2, PeerVersion: session.PeerVersion, FeatureLevel: 1,
		}}
		w.followed(l)
		l.beat(session.Heartbeat{Good: 2})
		refuses("behind a leader with a tree", 0, session.ErrLagging)
		if got := w.server.State().FeatureLevel; got != 1 {
			t.Errorf("behind a leader with a tree: level %d, want 1", got)
		}
	})
}
