package building

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/fence"
	"holdfast/tree"
)

// planted returns a session of a client, and its tree.
func (b *cluster) planted(c *client.Client, timeout time.Duration) (*client.Session, *client.Tree) {
	b.T.Helper()
	s := b.Session(c, timeout)
	return s, s.Tree()
}

// TestTreeOfASession: a session writes, reads and lists entries. Its ephemeral ones end with it, and another client
// hears of that.
func TestTreeOfASession(t *testing.T) {
	built(t, func(b *cluster) {
		t, ctx := b.T, context.Background()
		one, two := b.Client("one"), b.Client("two")
		defer one.Close()
		defer two.Close()
		s, in := b.planted(one, 10*time.Second)
		if _, err := in.Create(ctx, "/app/locks", nil, client.CreateOptions{Parents: true}); err != nil {
			t.Fatal(err)
		}
		locks, err := in.Chroot("/app/locks")
		if err != nil {
			t.Fatal(err)
		}
		var held []client.Created
		for range 2 {
			made, createErr := locks.Create(ctx, "/lock-", []byte("one"), client.CreateOptions{
				Kind: tree.Ephemeral, Sequential: true,
			})
			if createErr != nil {
				t.Fatal(createErr)
			}
			held = append(held, made)
		}
		stamp, err := two.Tree().Sync(ctx)
		if err != nil || stamp < held[1].Stamp {
			t.Errorf("synced up to %v, %v", stamp, err)
		}
		var names []string
		for child, err := range two.Tree().List(ctx, "/app/locks", client.Listing{PageSize: 1, WithData: true}) {
			if err != nil || string(child.Data) != "one" {
				t.Fatal(child, err)
			}
			names = append(names, "/"+child.Name)
		}
		if want := []string{held[0].Path, held[1].Path}; !slices.Equal(names, want) {
			t.Errorf("listed %q, want %q", names, want)
		}
		for path, err := range two.Tree().Ephemerals(ctx, client.EphemeralsOf{Session: s.ID()}) {
			if err != nil || path != "/app/locks"+held[0].Path {
				t.Errorf("ephemeral %s, %v", path, err)
			}
			break
		}
		holds, err := two.Tree().CheckFence(ctx, "/app/locks"+held[0].Path, held[0].Stat.Created)
		if err != nil || !holds {
			t.Errorf("the token holds: %v, %v", holds, err)
		}
		if list, err := in.GetACL(ctx, "/app"); err != nil || !list.Inherited {
			t.Errorf("access list %+v, %v", list, err)
		}
		gone := client.NewOneShot()
		if _, _, err := two.Tree().Exists(ctx, "/app/locks"+held[0].Path, client.WithWatch(gone)); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if e, err := gone.Wait(ctx); err != nil || e.Kind != tree.EntryDeleted {
			t.Errorf("the end of an ephemeral: %+v, %v", e, err)
		}
	})
}

// TestALateWriteIsRefused: the token of a lock rises from holder to holder. A device refuses the late write of a former
// holder; once the device has been restarted, the cluster does.
func TestALateWriteIsRefused(t *testing.T) {
	built(t, func(b *cluster) {
		const path = "/locks/printer"
		t, ctx := b.T, context.Background()
		one, two := b.Client("one"), b.Client("two")
		defer one.Close()
		defer two.Close()
		former, _ := b.planted(one, 10*time.Second)
		present, in := b.planted(two, 10*time.Second)
		d := &device{guard: fence.NewGuard(1)}
		first, err := lock(ctx, former, path)
		if err = errors.Join(err, d.set(ctx, path, first, "one"), d.setAsked(ctx, in, path, first, "one")); err != nil {
			t.Fatal(err)
		}
		if _, held := lock(ctx, present, path); !errors.Is(held, &tree.RefusedError{Code: tree.NodeExists}) {
			t.Errorf("two hold the lock: %v", held)
		}
		gone := client.NewOneShot()
		if _, _, err = in.Exists(ctx, path, client.WithWatch(gone)); err != nil {
			t.Fatal(err)
		}
		b.Kill("one")
		if _, err = gone.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		second, err := lock(ctx, present, path)
		if err != nil || second <= first {
			t.Fatalf("the second holder has the token %v after %v, %v", second, first, err)
		}
		if err = d.setAsked(ctx, in, path, first, "late"); err == nil || d.value != "one" {
			t.Errorf("a late write before the next holder's: %v, value %q", err, d.value)
		}
		if err = d.set(ctx, path, second, "two"); err != nil {
			t.Error(err)
		}
		err = d.set(ctx, path, first, "late")
		if late, ok := errors.AsType[*fence.StaleError](err); !ok || late.Newest != second || d.value != "two" {
			t.Errorf("a late write: %v, value %q", err, d.value)
		}
		d.guard = fence.NewGuard(1) // it is restarted
		if err = d.setAsked(ctx, in, path, first, "late"); err == nil || d.value != "two" {
			t.Errorf("a late write after a restart: %v, value %q", err, d.value)
		}
		if err = d.setAsked(ctx, in, path, second, "three"); err != nil || d.value != "three" {
			t.Errorf("the holder after a restart: %v, value %q", err, d.value)
		}
		if err = present.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// counter counts upwards in an entry of its own, as one session.
type counter struct {
	client *client.Client
	held   *client.Session
	path   string
	// moves counts how often another node served the session.
	moves int
}

// count sets the entry so many times, each time only if it has the version of the time before.
func (c *counter) count(times int64) error {
	in, owner := c.held.Tree(), c.held.Owner()
	for n := range times {
		set, err := in.Set(context.Background(), c.path, []byte(fmt.Sprint(n)), client.Version(n))
		if err != nil || set.Stat.Version != n+1 {
			return fmt.Errorf("count %d has version %d: %w", n, set.Stat.Version, err)
		}
		if now := c.held.Owner(); now != owner {
			owner = now
			c.moves++
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// heardOf collects the paths whose data changes, until ctx ends. It closes started once the watch is in place.
func heardOf(ctx context.Context, in *client.Tree, started chan struct{}) (map[string]int64, error) {
	heard := make(map[string]int64)
	for e, err := range in.Watch(ctx, "/", tree.WatchRecursive) {
		switch {
		case errors.Is(err, context.Canceled):
		case err != nil:
			return nil, err
		case e.Lost:
			return nil, fmt.Errorf("events up to %v are lost", e.Stamp)
		case e.Started:
			close(started)
		case e.Kind == tree.DataChanged:
			heard[e.Path]++
		}
	}
	return heard, nil
}

// TestTreeIsWrittenOnce: nodes stand still one after the other while clients count upwards. Each count takes effect
// once and is answered, and a watch hears of it once.
func TestTreeIsWrittenOnce(t *testing.T) {
	built(t, func(b *cluster) {
		const writers, counts = 4, 150
		watching, stop := context.WithCancel(context.Background())
		watcher := b.Client("watcher")
		defer watcher.Close()
		_, in := b.planted(watcher, 20*time.Second)
		var heard map[string]int64
		var heardErr error
		started := make(chan struct{})
		var listening, counting sync.WaitGroup
		listening.Go(func() { heard, heardErr = heardOf(watching, in, started) })
		<-started
		var all []*counter
		for i := range writers {
			c := &counter{client: b.Client(fmt.Sprint("writer", i)), path: fmt.Sprint("/", i)}
			defer c.client.Close()
			if _, err := in.Create(watching, c.path, nil, client.CreateOptions{}); err != nil {
				b.T.Fatal(err)
			}
			c.held, _ = b.planted(c.client, 20*time.Second)
			all = append(all, c)
			counting.Go(func() {
				if err := c.count(counts); err != nil {
					b.T.Errorf("%s: %v", c.path, err)
				}
			})
		}
		for _, name := range b.Names {
			time.Sleep(2 * time.Second)
			b.Pause(name)
			time.Sleep(3 * time.Second)
			b.Resume(name)
		}
		counting.Wait()
		time.Sleep(2 * time.Second)
		stop()
		listening.Wait()
		moves := 0
		for _, c := range all {
			moves += c.moves
			if heard[c.path] != counts {
				b.T.Errorf("the watch heard %d changes of %s, want %d", heard[c.path], c.path, counts)
			}
		}
		if moves < writers || heardErr != nil {
			b.T.Errorf("sessions moved %d times, want %d or more; the watch ended with %v", moves, writers, heardErr)
		}
	})
}
