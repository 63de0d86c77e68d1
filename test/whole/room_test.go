package whole_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/node"
	"holdfast/session"
	"holdfast/test/bubble"
)

// disks are the shares of the nodes' disks that are used, which a test sets.
type disks [3]atomic.Uint64

func (d *disks) set(share float64, nodes ...int) {
	for _, i := range nodes {
		d[i].Store(math.Float64bits(share))
	}
}

func (d *disks) options(i int, o *node.Options) {
	o.Measures.Disk = func() (float64, error) { return math.Float64frombits(d[i].Load()), nil }
}

// wantFull fails the test unless err is a refusal for want of room on a disk.
func wantFull(t *testing.T, doing string, err error) {
	t.Helper()
	if limit, ok := errors.AsType[*session.LimitError](err); !ok || limit.Name != "disk_limit" {
		t.Errorf("%s: got %v, want a refusal for disk_limit", doing, err)
	}
}

// O5: while disks are full that a quorum needs, opens and writes of the tree are refused at every node. Sessions are
// kept, they are closed, and they expire. A full disk that no quorum needs stops nobody but its own clients.
func TestFullDisks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var used disks
		f := simulated(t, 3, used.options)
		defer f.end()
		leads := f.leader()
		follower := (leads + 1) % 3
		admin := f.client("admin", f.endpoints()...)
		defer func() { _ = admin.Close() }()
		bound := func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), 9*time.Second) }
		open := func(cl *client.Client) (*client.Session, error) {
			ctx, cancel := bound()
			defer cancel()
			return cl.Open(ctx, client.SessionOptions{Timeout: 10 * time.Second})
		}
		must := func(cl *client.Client) *client.Session {
			t.Helper()
			s, err := open(cl)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		create := func(s *client.Session, path string) error {
			ctx, cancel := bound()
			defer cancel()
			_, err := s.Tree().Create(ctx, path, []byte("x"), client.CreateOptions{})
			return err
		}
		keeps, closes := must(admin), must(admin)
		if err := create(keeps, "/before"); err != nil {
			t.Fatal(err)
		}
		dies := f.client("dies", f.endpoints()...)
		defer func() { _ = dies.Close() }()
		lost := must(dies)

		used.set(0.91, follower)
		time.Sleep(3 * time.Second)
		away := f.client("away", f.peers[follower].Client)
		defer func() { _ = away.Close() }()
		_, err := open(away)
		wantFull(t, "open through the node with the full disk", err)
		st, err := admin.Status(t.Context(), f.peers[follower].Client)
		if err != nil || !st.Ready || !strings.Contains(st.Warning, "disk_limit (90 percent of the disk of node ") {
			t.Errorf("status of the full node: %+v, %v", st, err)
		}
		if st, err = admin.Status(t.Context(), f.peers[leads].Client); err != nil || st.Warning != "" {
			t.Errorf("one full disk of three: the leader says %q, %v", st.Warning, err)
		}

		used.set(0.91, leads)
		time.Sleep(3 * time.Second)
		_, err = open(admin)
		wantFull(t, "open", err)
		wantFull(t, "create", create(keeps, "/refused"))
		third := f.peers[3-leads-follower].Client
		if st, err = admin.Status(t.Context(), third); err != nil || !strings.Contains(st.Warning, "that a quorum needs") {
			t.Errorf("two full disks of three: the third says %q, %v", st.Warning, err)
		}
		f.net.Pause("dies")
		defer f.net.Resume("dies")
		ctx, cancel := bound()
		if err = closes.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		cancel()
		time.Sleep(20 * time.Second)
		if err = keeps.Context().Err(); err != nil {
			t.Errorf("a session whose client touches it: %v", err)
		}
		if found, unread := admin.Get(t.Context(), lost.ID()); unread != nil || found.Certificate == nil {
			t.Errorf("a session without a client: %+v, %v, want that it has expired", found, unread)
		}

		used.set(0.87, leads, follower) // below the limit, and not yet calm
		time.Sleep(3 * time.Second)
		_, err = open(admin)
		wantFull(t, "open at 87 percent", err)
		used.set(0.84, leads, follower)
		time.Sleep(3 * time.Second)
		must(admin)
		if err = create(keeps, "/after"); err != nil {
			t.Errorf("create with room: %v", err)
		}
	})
}
