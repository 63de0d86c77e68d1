//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/client"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/dial"
	"holdfast/tree"
)

// TestUpgrade replaces the release before this one, node by node, as docs/operations.md says, while clients of both
// releases hold sessions. Until the operator says so there is no tree, and each node may go back. Then there is one,
// and the former release loses nothing: it is kept out, on the data directory of its node and on an empty one. No
// session ends.
func TestUpgrade(t *testing.T) {
	former := releaseBefore(t)
	t.Parallel()
	u := &upgrade{processes: newProcesses(t, 3), t: t, former: former}
	u.l = u.c.newLedger()
	for _, n := range u.c.all() {
		u.start(n, former)
	}
	u.serving()
	u.held = u.l.settled(5, minTimeout, u.c.all()...)
	u.calm = u.l.settled(5, 2*minTimeout, u.c.all()...)
	old := u.c.holdWith(former.holdfast(), "--timeout", minTimeout.String())
	kept := old.next(func(s shown) bool { return s.ID != "" })

	loaded := u.load()
	u.mixed()
	u.forthAndBack()
	u.raise()
	loaded()
	u.keptOut()
	u.takenIn()

	u.l.servesOn(u.c.all()...)
	u.l.noneLapsed(u.calm)
	if err := old.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	old.next(func(s shown) bool { return s.Event == "ended" })
	if err := old.cmd.Wait(); err != nil {
		t.Errorf("the client of the former release ended with %v, want 0: session %s", err, kept.ID)
	}
}

// upgrade is a cluster on its way from the former release to this one.
type upgrade struct {
	*processes
	t      *testing.T
	l      *ledger
	former release
	// held and calm are sessions that live through all of it, calm those with a longer timeout.
	held, calm []*account
}

// serving waits until all nodes serve, with the same state. It returns the leader and the others.
func (u *upgrade) serving() (leader int, others []int) {
	u.t.Helper()
	leader = u.c.awaitServing(healWithin, u.c.all()...)
	return leader, u.c.but(leader)
}

// replace stops one node and starts it with a release's program, on its data directory. Then the others have the
// sessions, and new ones are opened, moved and closed.
func (u *upgrade) replace(n int, r release, flags ...string) {
	u.t.Helper()
	u.stop(n)
	all := slices.Concat(u.held, u.calm)
	u.l.awaitOwners(moveWithin, all, u.c.but(n)...)
	u.start(n, r, flags...)
	u.serving()
	u.churn()
}

// churn opens sessions and closes them, so that the log has more than a snapshot's worth of entries.
func (u *upgrade) churn() {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), healWithin)
	defer cancel()
	x := u.l.client()
	for range 15 {
		one := u.l.open(x, 1, minTimeout)[0]
		if err := one.session.Close(ctx); err != nil {
			u.t.Fatal(err)
		}
		u.l.forget(one)
	}
}

// rolls replaces all nodes, the leader last.
func (u *upgrade) rolls(r release, flags ...string) {
	u.t.Helper()
	leader, others := u.serving()
	for _, n := range append(others, leader) {
		u.replace(n, r, flags...)
	}
}

// mixed runs one node of this release among the former ones, and takes it back.
func (u *upgrade) mixed() {
	u.t.Helper()
	_, others := u.serving()
	u.replace(others[0], today)
	u.noTree()
	u.replace(others[0], u.former)
}

// forthAndBack replaces all nodes, then takes all back, and then replaces them for good. The first node that goes back
// follows a leader of this release.
func (u *upgrade) forthAndBack() {
	u.t.Helper()
	u.rolls(today)
	u.noTree()
	leader, others := u.serving()
	u.replace(others[0], u.former) // the leader is of this release, and names the node
	if now, _ := u.serving(); now == leader {
		u.heldBack(fmt.Sprintf("node %d runs a release that offers feature level 0", others[0]))
	}
	u.rolls(u.former)
	u.rolls(today)
	u.noTree()
}

// noTree checks that the cluster has no tree, and that each node says so to the clients of its sessions and to others.
func (u *upgrade) noTree() {
	u.t.Helper()
	for _, n := range u.c.all() {
		if s, err := u.c.status(n); err != nil || s.FeatureLevel != 0 {
			u.t.Errorf("node %d has feature level %d, %v; want 0", n, s.FeatureLevel, err)
		}
		u.unimplemented(n)
		_, opened := u.l.clientAt(n, 1, minTimeout)
		ctx, cancel := context.WithTimeout(u.t.Context(), healWithin)
		_, err := opened[0].session.Tree().Create(ctx, "/early", nil, client.CreateOptions{})
		cancel()
		if !errors.Is(err, session.ErrNoTree) {
			u.t.Errorf("a write through node %d: %v, want %v", n, err, session.ErrNoTree)
		}
	}
}

// unimplemented sends node n requests for the tree without the SDK.
func (u *upgrade) unimplemented(n int) {
	u.t.Helper()
	conn, err := dial.Client(u.c.address(n), dial.Options{})
	if err != nil {
		u.t.Fatal(err)
	}
	defer conn.Close()
	asks := holdfastv1.NewTreeServiceClient(conn)
	ctx, cancel := context.WithTimeout(u.t.Context(), healWithin)
	defer cancel()
	if _, err := asks.Get(ctx, &holdfastv1.GetRequest{Path: "/"}); status.Code(err) != codes.Unimplemented {
		u.t.Errorf("a read by node %d: %v, want %v", n, err, codes.Unimplemented)
	}
	if _, err := asks.Sync(ctx, &holdfastv1.SyncRequest{}); status.Code(err) != codes.Unimplemented {
		u.t.Errorf("a sync by node %d: %v, want %v", n, err, codes.Unimplemented)
	}
}

// load has a client open and close sessions all the time, whichever release its nodes run. stop ends that, and fails
// the test if an open or a close failed.
func (u *upgrade) load() (stop func()) {
	u.t.Helper()
	x := u.l.client()
	ctx, cancel := context.WithCancel(u.t.Context())
	done := make(chan error, 1)
	opened := 0
	go func() {
		for ctx.Err() == nil {
			one, end := context.WithTimeout(context.WithoutCancel(ctx), healWithin)
			s, err := x.Open(one, client.SessionOptions{Timeout: minTimeout})
			if err == nil {
				opened++
				err = s.Close(one)
			}
			if end(); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return func() {
		u.t.Helper()
		cancel()
		if err := <-done; err != nil || opened < 100 {
			u.t.Errorf("%d sessions were opened and closed meanwhile, then: %v", opened, err)
		}
		u.t.Logf("%d sessions were opened and closed meanwhile", opened)
	}
}

// heldBack waits until the leader, which runs this release, says what holds the tree back.
func (u *upgrade) heldBack(want string) {
	u.t.Helper()
	u.c.await(healWithin, "cluster status says what holds the upgrade back", func() (bool, string) {
		out, code := u.c.holdfast("", "cluster", "status")
		return code == 0 && strings.Contains(out, want), out
	})
}

// raise gives the cluster its tree: the operator's word, without a restart. All sessions can write then, also those
// that the former release has opened.
func (u *upgrade) raise() {
	u.t.Helper()
	_, others := u.serving()
	_, unmoved := u.l.clientAt(others[0], 1, minTimeout)
	u.heldBack("holdfast cluster raise 2")
	u.noTree()
	if out, code := u.c.holdfast("", "cluster", "raise", "2", "--yes"); code != 0 ||
		!strings.Contains(out, "feature level 2") {
		u.t.Fatalf("cluster raise: exit code %d, %s", code, out)
	}
	u.c.await(healWithin, "all nodes have the tree", func() (bool, string) {
		for _, n := range u.c.all() {
			if s, err := u.c.status(n); err != nil || s.FeatureLevel != session.FeatureLevel {
				return false, fmt.Sprintf("node %d: feature level %d, %v", n, s.FeatureLevel, err)
			}
		}
		return true, ""
	})
	writers := slices.Concat(u.held, u.calm, unmoved)
	for _, a := range writers {
		u.c.await(healWithin, "a session of before writes", func() (bool, string) {
			ctx, cancel := context.WithTimeout(u.t.Context(), healWithin)
			defer cancel()
			_, err := a.session.Tree().Create(ctx, "/"+a.session.ID().String(), nil,
				client.CreateOptions{Kind: tree.Ephemeral})
			return err == nil, fmt.Sprint(err) // a node's word that there is no tree may be half a second old
		})
	}
	u.ephemerals(len(writers))
	u.churn()
}

// ephemerals waits until all nodes have the ephemeral of each session.
func (u *upgrade) ephemerals(want int) {
	u.t.Helper()
	u.c.await(healWithin, "all nodes have the ephemerals", func() (bool, string) {
		for _, n := range u.c.all() {
			if s, err := u.c.status(n); err != nil || s.TreeEphemerals != uint64(want) {
				return false, fmt.Sprintf("node %d has %d, %v; want %d", n, s.TreeEphemerals, err, want)
			}
		}
		return true, ""
	})
}

// keptOut starts the former release on the data directory of a node that has the tree. It ends, says why, and leaves
// the files as they are. This release goes on with them.
func (u *upgrade) keptOut() {
	u.t.Helper()
	leader, others := u.serving()
	for _, n := range []int{others[0], leader} {
		u.stop(n)
		files := u.files(n)
		if len(files) < 4 {
			u.t.Errorf("node %d has %d files, want a snapshot beside the log", n, len(files))
		}
		u.start(n, u.former)
		if err := u.exit(n); err == nil {
			u.t.Errorf("the former release has run as node %d, and ended in order", n)
		}
		u.says(n, "it was written by a newer version")
		if now := u.files(n); !maps.Equal(now, files) {
			u.t.Errorf("the former release has changed files of node %d: there were %d, and there are %d", n,
				len(files), len(now))
		}
		if n == leader {
			u.unnoted(n)
		}
		u.start(n, today, "--tree", "on")
		u.serving()
	}
	u.ephemerals(len(u.held) + len(u.calm) + 1)
}

// says fails unless the former release, which has ended as node n, has said something.
func (u *upgrade) says(n int, want string) {
	u.t.Helper()
	if text := u.log(n); !strings.Contains(text, want) {
		u.t.Errorf("the former release does not say %q, as node %d:\n%s", want, n, tail(text, 10))
	}
}

// unnoted starts the former release on the directory of a node whose power failed before it could note there that the
// cluster has a tree. The former release stops at the snapshot.
func (u *upgrade) unnoted(n int) {
	u.t.Helper()
	file := filepath.Join(u.data(n), "identity")
	text, err := os.ReadFile(file)
	if err != nil {
		u.t.Fatal(err)
	}
	plain := strings.Replace(string(text), `"format":5`, `"format":3`, 1)
	if plain == string(text) {
		u.t.Fatalf("node %d's identity file is not of format 5: %s", n, text)
	}
	if err := os.WriteFile(file, []byte(plain), 0o600); err != nil {
		u.t.Fatal(err)
	}
	u.start(n, u.former)
	if err := u.exit(n); err == nil {
		u.t.Errorf("the former release has run as node %d, and ended in order", n)
	}
	u.says(n, "this node's release cannot read")
}

// takenIn starts the former release on an empty data directory. The leader does not take the node in, and says why. It
// takes this release in.
func (u *upgrade) takenIn() {
	u.t.Helper()
	leader, others := u.serving()
	n := others[0]
	u.stop(n)
	if err := os.Rename(u.data(n), filepath.Join(u.dir, "kept")); err != nil {
		u.t.Fatal(err)
	}
	u.start(n, u.former)
	refusal := (&session.FeatureLevelError{Node: session.Node(n), Needs: session.FeatureLevel}).Error()
	u.c.await(healWithin, "the leader refuses the former release", func() (bool, string) {
		text := u.log(leader)
		return strings.Contains(text, "a node of an older release cannot take part") && strings.Contains(text, refusal),
			tail(text, 5)
	})
	if u.healthy(n) {
		u.t.Errorf("node %d serves in the former release", n)
	}
	if text := u.log(n); !strings.Contains(text, "waiting for nodes") {
		u.t.Errorf("node %d does not say that it waits:\n%s", n, tail(text, 10))
	}
	u.stop(n)
	if err := os.RemoveAll(u.data(n)); err != nil {
		u.t.Fatal(err)
	}
	began := time.Now()
	u.start(n, today, "--tree", "on")
	u.serving()
	took(u.t, "taken in after", time.Since(began))
	u.ephemerals(len(u.held) + len(u.calm) + 1)
}
