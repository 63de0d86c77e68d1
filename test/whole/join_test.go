package whole_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
)

// A joining node reports what it waits for, is added by an operator, and ignores the setting from then on. If its peers
// name no other node it founds no cluster (J2 add, promote, demote).
func TestANodeThatJoinsWaitsForAnOperator(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 3)
		defer f.end()
		cl := f.operator(0, 1, 2)
		defer cl.Close()
		f.configure = func(i int, c *config.Config) { c.Raft.Join = i > 2 }
		i := f.join()
		time.Sleep(time.Minute)
		s, err := f.nodes[i].Status(context.Background())
		if want := "once an operator of the cluster has run holdfast cluster add 4 HOST"; err != nil || s.Ready ||
			!strings.HasSuffix(s.NotReadyBecause, want) {
			t.Errorf("it is ready: %v, because %q, %v, want %s", s.Ready, s.NotReadyBecause, err, want)
		}
		if err := cl.AddMember(t.Context(), f.place(i)); err != nil {
			t.Fatal(err)
		}
		f.awaitMember(cl, i, "being an observer", observes)
		f.awaitReady(i)
		f.restart(i)
		f.awaitReady(i)

		f.configure = func(i int, c *config.Config) { c.Raft.Join, c.Peers = true, c.Peers[i:] }
		lone := f.join()
		time.Sleep(time.Minute)
		if s, err := f.nodes[lone].Status(context.Background()); err != nil || f.nodes[lone].Leads() || s.Ready {
			t.Errorf("without other peers it leads a cluster of its own: %v, %v", f.nodes[lone].Leads(), err)
		}
	})
}

// A member that was added at run time and has lost its data directory is not added again on another directory. The node
// reports this, and does not suggest a command that would change nothing; the command reports it too (J2, J3 removal).
func TestAnAddedNodeThatHasLostItsDirectory(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 3)
		defer f.end()
		cl := f.operator(0, 1, 2)
		defer cl.Close()
		f.configure = func(i int, c *config.Config) { c.Raft.Join = i > 2 }
		i := f.observer(cl)
		says := func(want string) {
			t.Helper()
			var said string
			for range 600 {
				s, err := f.nodes[i].Status(context.Background())
				if err != nil || s.Ready {
					t.Fatalf("ready: %v, %v", s.Ready, err)
				}
				if said = s.NotReadyBecause; strings.Contains(said, want) {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			t.Fatalf("the node says %q, want %q", said, want)
		}
		f.die(i)
		if err := os.RemoveAll(filepath.Join(f.dir, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		f.nodes[i] = f.start(i)
		says("node 4 is a member on another data directory")
		if err := cl.AddMember(t.Context(), f.place(i)); !refusedFor(err, session.MemberKnown) {
			t.Errorf("it was added again: %v", err)
		}
		if err := cl.RemoveMember(t.Context(), f.peers[i].Node); err != nil {
			t.Fatal(err)
		}
		f.awaitMember(cl, i, "its removal", gone)
		says("node 4 was removed from the cluster for good")
	})
}
