//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/timeout"
	"holdfast/tree"
)

const (
	// treeClients is how many clients write, each with a session and an ephemeral of its own.
	treeClients = 200
	// counters is how many counters they share.
	counters = 5
	// treeOpWithin bounds one write with all its repeats.
	treeOpWithin = time.Minute
	// treeLeft is how many clients go at the end, before all others.
	treeLeft = 20
	// treeLast is the entry that is made last.
	treeLast = "/services/last"
)

// TestTree has 200 clients hold ephemerals, count counters up and make sequential entries, while nodes are cut off,
// killed, frozen and run out of disk. No ephemeral outlives its session or ends before it (I12 no orphans), every
// increment is there once (I9 once), and so is every acknowledged entry, in the order of its client (I10 in order).
// Watchers hear of every ephemeral that came or went, or that events are lost (I11 no event missing).
func TestTree(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		t.Run(fmt.Sprintf("nodes=%d", nodes), func(t *testing.T) {
			if nodes == 5 && !full {
				t.Skip("only E2E=full runs this")
			}
			var files []string
			if nodes == 3 {
				files = append(files, "tree-disk.yaml")
			}
			c := create(t, nodes, files...)
			t.Cleanup(c.down)
			c.awaitServing(healWithin, c.all()...)
			w := newWood(c)
			w.plant()
			w.faults()
			w.fell()
			w.c.awaitServing(2*healWithin, w.c.all()...) // with the same digest
		})
	}
}

// wood is a cluster's tree with the clients that work on it, and what they were told.
type wood struct {
	c       *cluster
	l       *ledger
	workers []*woodcutter
	stop    context.CancelFunc
	running sync.WaitGroup
	watches []*watched
	// felling says that the first treeLeft clients go, felled that they have gone and that nobody writes any more.
	felling, felled bool
}

// woodcutter is one client. Its goroutine owns it while it works.
type woodcutter struct {
	number  int
	client  *client.Client
	account *account
	// added are its acknowledged increments of each counter, unknown those without an answer.
	added, unknown [counters]int
	// made are its acknowledged sequential entries, asked counts those that were asked for.
	made  []string
	asked int
	errs  []error
}

// watched is what a watcher has heard: whether an ephemeral is there, by its name.
type watched struct {
	mu     sync.Mutex
	there  map[string]bool // guarded by mu
	events int             // guarded by mu
	lost   int             // guarded by mu
	told   tree.Stamp      // guarded by mu
	err    error           // guarded by mu
}

// newWood makes a wood. It judges what the clients were told when the test ends.
func newWood(c *cluster) *wood {
	w := &wood{c: c, l: c.newLedger()}
	c.t.Cleanup(func() {
		for _, one := range w.workers {
			one.client.Close()
		}
	})
	c.t.Cleanup(w.judge)
	return w
}

func (w *woodcutter) name() string { return strconv.Itoa(w.number) }

// plant makes the entries that are shared, and starts the clients.
func (w *wood) plant() {
	t := w.c.t
	t.Helper()
	first := w.l.open(w.l.client(), 1, crowdTimeout)[0].session
	ops := []tree.Op{
		tree.Create{Path: "/services", Kind: tree.Persistent},
		tree.Create{Path: "/counters", Kind: tree.Persistent},
		tree.Create{Path: "/ledger", Kind: tree.Persistent},
	}
	for i := range counters {
		ops = append(ops, tree.Create{Path: fmt.Sprintf("/counters/%d", i), Kind: tree.Persistent, Data: []byte("0")})
	}
	planting, cancel := context.WithTimeout(t.Context(), treeOpWithin)
	defer cancel()
	_, err := first.Tree().Transact(planting, tree.Transaction{Then: ops})
	timeout.Check(t, err)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	t.Cleanup(func() { stop(); w.running.Wait() })
	for range 3 {
		heard := &watched{there: map[string]bool{}}
		w.watches = append(w.watches, heard)
		x := w.l.client()
		w.running.Go(func() { heard.watch(ctx, x) })
	}
	w.c.await(healWithin, "all watchers watch", func() (bool, string) {
		for i, heard := range w.watches {
			if told, failed := heard.state(); failed != nil {
				t.Fatalf("watcher %d: %v", i, failed)
			} else if told == 0 {
				return false, fmt.Sprintf("watcher %d was told nothing", i)
			}
		}
		return true, ""
	})
	for i := range treeClients {
		x, err := client.New(w.c.config(w.c.all()...))
		timeout.Check(t, err)
		w.workers = append(w.workers, &woodcutter{number: i, client: x})
	}
	for _, one := range w.workers {
		one.account = w.l.open(one.client, 1, crowdTimeout)[0]
		w.running.Go(func() { one.work(ctx, rand.New(rand.NewPCG(1, uint64(one.number)))) })
	}
}

// state returns the newest stamp that was told, and why the watch has failed.
func (h *watched) state() (tree.Stamp, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told, h.err
}

// watch notes what it hears of the ephemerals.
func (h *watched) watch(ctx context.Context, x *client.Client) {
	for e, err := range x.Tree().Watch(ctx, "/services", tree.WatchRecursive) {
		h.mu.Lock()
		switch {
		case err != nil:
			if ctx.Err() == nil {
				h.err = err
			}
		case e.Started:
		case e.Lost:
			h.lost++
		default:
			h.events++
			h.there[e.Path] = e.Kind != tree.EntryDeleted
		}
		if err == nil {
			if e.Stamp < h.told {
				h.err = fmt.Errorf("I13: told of %v behind %v", e.Stamp, h.told)
			}
			h.told = e.Stamp
		}
		h.mu.Unlock()
	}
}

// work makes an ephemeral, and then writes until ctx ends.
func (w *woodcutter) work(ctx context.Context, dice *rand.Rand) {
	t := w.account.session.Tree()
	if !w.do(ctx, func(ctx context.Context) error {
		_, err := t.Create(ctx, "/services/"+w.name(), nil, client.CreateOptions{Kind: tree.Ephemeral})
		return err
	}) {
		return
	}
	if !w.do(ctx, func(ctx context.Context) error {
		_, err := t.Create(ctx, "/ledger/"+w.name(), nil, client.CreateOptions{})
		return err
	}) {
		return
	}
	for ctx.Err() == nil {
		if dice.IntN(2) == 0 {
			w.add(ctx, t, dice.IntN(counters))
		} else {
			w.make(ctx, t)
		}
		pause := time.NewTimer(time.Duration(300+dice.IntN(400)) * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
}

// do does one thing within a bound, and reports whether it was done. The end of the work is no fault.
func (w *woodcutter) do(ctx context.Context, what func(context.Context) error) bool {
	op, cancel := context.WithTimeout(ctx, treeOpWithin)
	defer cancel()
	err := what(op)
	if err != nil && ctx.Err() == nil {
		w.errs = append(w.errs, err)
	}
	return err == nil
}

// add counts a counter up: it reads it, and sets it if nobody else has done so meanwhile.
func (w *woodcutter) add(ctx context.Context, t *client.Tree, n int) {
	path := fmt.Sprintf("/counters/%d", n)
	w.do(ctx, func(ctx context.Context) error {
		for {
			now, err := t.Get(ctx, path)
			if err != nil {
				return err
			}
			value, err := strconv.Atoi(string(now.Data))
			if err != nil {
				return err
			}
			_, err = t.Set(ctx, path, []byte(strconv.Itoa(value+1)), client.Version(now.Stat.Version))
			switch {
			case err == nil:
				w.added[n]++
				return nil
			case errors.Is(err, session.ErrOutcomeUnknown):
				w.unknown[n]++
				return nil
			case !errors.Is(err, &tree.RefusedError{Code: tree.BadVersion}):
				return err
			}
		}
	})
}

// make makes a sequential entry.
func (w *woodcutter) make(ctx context.Context, t *client.Tree) {
	w.asked++
	w.do(ctx, func(ctx context.Context) error {
		made, err := t.Create(ctx, "/ledger/"+w.name()+"/", []byte("x"), client.CreateOptions{Sequential: true})
		if errors.Is(err, session.ErrOutcomeUnknown) {
			return nil
		}
		if err == nil {
			w.made = append(w.made, made.Path)
		}
		return err
	})
}

// faults plays each fault once, with time to work between them.
func (w *wood) faults() {
	c := w.c
	c.t.Helper()
	calm := func() (leader int) {
		leader = c.awaitBusy(2*healWithin, c.all()...)
		time.Sleep(2 * time.Second)
		return leader
	}
	leader := calm()
	cut := c.cut([]int{leader}, c.but(leader))
	time.Sleep(crowdTimeout / 2)
	cut.heal()

	killed := []int{calm()}
	if c.nodes == 5 {
		killed = append(killed, c.but(killed...)[0])
	}
	c.kill(killed...)
	time.Sleep(3 * time.Second)
	c.start(killed...)

	frozen := c.follower(calm())
	c.pause(frozen)
	time.Sleep(crowdTimeout + 2*time.Second)
	c.unpause(frozen)

	filled := c.follower(calm())
	if c.nodes == 3 {
		c.holdVolume(filled)
		c.disk(filled, "fill", "/data")
		c.awaitFailed(filled, "no space left on device")
		c.disk(filled, "free", "/data")
		must(c.t, "docker", "restart", "-t", "1", c.container(filled))
		calm()
	}
}

// fell ends the work of all, and the sessions of some: half of these are closed, and of the others the client goes.
func (w *wood) fell() {
	t := w.c.t
	t.Helper()
	w.felling = true
	left := w.workers[:treeLeft]
	for i, one := range left {
		if i%2 == 0 {
			ctx, cancel := context.WithTimeout(t.Context(), treeOpWithin)
			if err := one.account.session.Close(ctx); err != nil {
				t.Errorf("close of client %d: %v", i, err)
			}
			cancel()
			w.l.forget(one.account)
			continue
		}
		one.account.gone = true
		w.l.expired++
		one.client.Close()
	}
	w.c.await(crowdTimeout+2*healWithin, "the ephemerals of those who have gone are gone", func() (bool, string) {
		names, err := w.services(t.Context())
		if err != nil {
			return false, err.Error()
		}
		for _, one := range left {
			if slices.Contains(names, one.name()) {
				return false, "/services/" + one.name() + " is there"
			}
		}
		return true, ""
	})
	w.watchersHeard()
	w.stop()
	w.running.Wait()
	w.felled = true
}

// watchersHeard makes one more entry, and waits until the watchers have heard of it. Events come in the order of their
// stamps: the watchers must have heard by then of all that came and went before (I11).
func (w *wood) watchersHeard() {
	t := w.c.t
	t.Helper()
	before, err := w.services(t.Context())
	timeout.Check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), treeOpWithin)
	defer cancel()
	_, err = w.workers[len(w.workers)-1].account.session.Tree().Create(ctx, treeLast, nil, client.CreateOptions{})
	timeout.Check(t, err)
	heard := make([]map[string]bool, len(w.watches))
	w.c.await(healWithin, "watchers have heard of the last entry", func() (bool, string) {
		for i, one := range w.watches {
			there, lost, failed := one.heard()
			if failed != nil {
				t.Fatalf("watcher %d: %v", i, failed)
			}
			if !there[treeLast] && !lost {
				return false, fmt.Sprintf("watcher %d has not", i)
			}
			if heard[i] = there; lost {
				heard[i] = nil
			}
		}
		return true, ""
	})
	after, err := w.services(t.Context())
	timeout.Check(t, err)
	for i, there := range heard {
		if there == nil {
			continue // it was told that events are lost
		}
		for _, why := range missed(there, before, after) {
			t.Errorf("watcher %d: %s", i, why)
		}
	}
}

// heard returns what the watcher has heard, whether it was told that events are lost, and why the watch has failed.
func (h *watched) heard() (there map[string]bool, lost bool, failed error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.there), h.lost > 0, h.err
}

// missed says what a watcher should have heard otherwise: before and after have the names of the ephemerals that were
// there before and after. What is in one of them alone has come or gone meanwhile: a session may still end.
func missed(there map[string]bool, before, after []string) (all []string) {
	for _, name := range before {
		if path := "/services/" + name; slices.Contains(after, name) && !there[path] {
			all = append(all, fmt.Sprintf("I11: %s is there, and it has not heard of that, or heard that it went", path))
		}
	}
	for path, is := range there {
		name := strings.TrimPrefix(path, "/services/")
		if is && path != "/services" && !slices.Contains(before, name) && !slices.Contains(after, name) {
			all = append(all, fmt.Sprintf("I11: it heard last that %s is there, and it is not", path))
		}
	}
	return all
}

// TestMissed: a watcher that has missed an event is found.
func TestMissed(t *testing.T) {
	for _, test := range []struct {
		name          string
		there         map[string]bool
		before, after []string
		want          int
	}{
		{"all heard", map[string]bool{"/services/1": true, "/services/2": false, treeLast: true}, []string{"1"}, []string{"1", "last"}, 0},
		{"a create", map[string]bool{treeLast: true}, []string{"1"}, []string{"1", "last"}, 1},
		{"a delete", map[string]bool{"/services/2": true, treeLast: true}, nil, []string{"last"}, 1},
		{"the create after a delete", map[string]bool{"/services/1": false}, []string{"1"}, []string{"1", "last"}, 1},
		{"goes meanwhile", map[string]bool{"/services/1": false, "/services/2": true}, []string{"1", "2"}, []string{"last"}, 0},
		{"the parent", map[string]bool{"/services": true}, nil, nil, 0},
	} {
		if got := missed(test.there, test.before, test.after); len(got) != test.want {
			t.Errorf("%s: %q, want %d", test.name, got, test.want)
		}
	}
}

// services lists the ephemerals.
func (w *wood) services(ctx context.Context) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, treeOpWithin)
	defer cancel()
	for child, err := range w.reads().List(ctx, "/services", client.Listing{PageSize: tree.MaxPage}) {
		if err != nil {
			return nil, err
		}
		names = append(names, child.Name)
	}
	return names, nil
}

// reads returns a view of what was committed, by a client that stays.
func (w *wood) reads() *client.Tree {
	return w.workers[len(w.workers)-1].client.Tree(client.Linearizable())
}
