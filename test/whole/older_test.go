package whole_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/test/bubble"
)

// TestAnOlderCopyLosesNothing: two of three nodes acknowledge 20 sets. Then the directory of one of them, a follower or
// the leader, is replaced by an older copy, and all nodes restart, among them the third, which has none of the sets.
// The copy takes no part (J6 rolled-back directories): all sets are there, and its node comes back as a new member.
func TestAnOlderCopyLosesNothing(t *testing.T) {
	for _, leads := range []bool{false, true} {
		t.Run(fmt.Sprint("the leader's=", leads), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f := simulated(t, 3)
				defer f.end()
				old := (f.leader() + 1) % 3
				f.stop(old)
				former, dir := t.TempDir(), filepath.Join(f.dir, fmt.Sprint(old))
				if err := os.CopyFS(former, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				f.nodes[old] = f.start(old)
				<-f.nodes[old].Ready()
				for (f.leader() == old) != leads {
					f.restart(f.leader())
				}
				behind := 0
				for behind == old || behind == f.leader() {
					behind++
				}
				cl := f.client("writer", f.peers[f.leader()].Client)
				s, err := cl.Open(t.Context(), client.SessionOptions{Timeout: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				if _, err = s.Tree().Create(t.Context(), "/app", nil, client.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				names := []string{"n1", "n2", "n3"}
				for i, name := range names {
					if i != behind {
						f.net.Cut(name, names[behind])
						f.net.Cut(names[behind], name)
					}
				}
				for i := range 20 {
					if _, err = s.Tree().Set(t.Context(), "/app", fmt.Append(nil, i)); err != nil {
						t.Fatalf("set %d: %v", i, err)
					}
				}
				cl.Close()
				f.end()
				if err = os.RemoveAll(dir); err == nil {
					err = os.CopyFS(dir, os.DirFS(former))
				}
				if err != nil {
					t.Fatal(err)
				}
				for i, name := range names {
					if i != behind {
						f.net.Heal(name, names[behind])
						f.net.Heal(names[behind], name)
					}
					f.nodes[i] = f.start(i)
				}
				if err = f.nodes[old].Serves(); err == nil || !strings.Contains(err.Error(), "is an older copy of itself") {
					t.Fatalf("the node on the older copy: %v", err)
				}
				f.nodes[old] = f.start(old)
				for _, n := range f.nodes {
					if err := n.Serves(); err != nil {
						t.Fatal(err)
					}
				}
				for i, p := range f.peers {
					reader := f.client(fmt.Sprint("reader", i), p.Client)
					e, err := reader.Tree().Get(t.Context(), "/app")
					if err != nil || string(e.Data) != "19" {
						t.Errorf("node %d shows %q, %v after 20 acknowledged sets", i+1, e.Data, err)
					}
					reader.Close()
				}
			})
		})
	}
}
