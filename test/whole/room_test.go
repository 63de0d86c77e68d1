package whole_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/node"
	"holdfast/node/health"
	"holdfast/session"
	"holdfast/test/bubble"
)

// disks are the nodes' disks, of 1,000 MiB each: a test sets how many are free. A disk is full with less than 100, and
// has room again with 150.
type disks [3]atomic.Uint64

func roomy() *disks {
	var d disks
	d.set(500, 0, 1, 2)
	return &d
}

func (d *disks) set(free uint64, nodes ...int) {
	for _, i := range nodes {
		d[i].Store(free)
	}
}

func (d *disks) options(i int, o *node.Options) {
	o.Platform.Measures.Disk = func() (health.Disk, error) { return health.Disk{Size: 1000 << 20, Free: d[i].Load() << 20}, nil }
}

// wantFull fails the test unless err is a refusal for want of room on a disk.
func wantFull(t *testing.T, doing string, err error) {
	t.Helper()
	if limit, ok := errors.AsType[*session.LimitError](err); !ok || limit.Name != "disk_limit" {
		t.Errorf("%s: got %v, want a refusal for disk_limit", doing, err)
	}
}

// O5: while no quorum has room on its disks, opens and writes of the tree are refused at every node. Sessions are kept
// alive, closed, and expire. A full disk that no quorum needs stops no client. A leader transfers leadership to the
// only node with room, though that does not help.
func TestFullDisks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		free := roomy()
		f := simulated(t, 3, free.options)
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

		free.set(99, follower)
		time.Sleep(3 * time.Second)
		away := f.client("away", f.peers[follower].Client)
		defer func() { _ = away.Close() }()
		must(away)
		st, err := admin.Status(t.Context(), f.peers[follower].Client)
		if err != nil || !st.Ready || st.Warning != "the disk is full: 99 MiB are free, and must be 150 MiB" {
			t.Errorf("status of the full node: %+v, %v", st, err)
		}
		if st, err = admin.Status(t.Context(), f.peers[leads].Client); err != nil || st.Warning != "" {
			t.Errorf("one full disk of three: the leader says %q, %v", st.Warning, err)
		}

		free.set(99, leads)
		time.Sleep(3 * time.Second)
		_, err = open(admin)
		wantFull(t, "open", err)
		wantFull(t, "create", create(keeps, "/refused"))
		third := 3 - leads - follower
		st, err = admin.Status(t.Context(), f.peers[third].Client)
		if err != nil || !strings.Contains(st.Warning, "disk_limit (fewer voters than a quorum have free disk space; full: nodes ") {
			t.Errorf("two full disks of three: the third says %q, %v", st.Warning, err)
		}
		if now := f.leader(); now != third {
			t.Errorf("two full disks of three: node %d leads, want node %d", now+1, third+1)
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

		free.set(149, leads, follower) // more than the reserve, and not yet enough
		time.Sleep(3 * time.Second)
		_, err = open(admin)
		wantFull(t, "open at 149 MiB", err)
		free.set(150, leads, follower)
		time.Sleep(3 * time.Second)
		must(admin)
		if err = create(keeps, "/after"); err != nil {
			t.Errorf("create with room: %v", err)
		}
	})
}
