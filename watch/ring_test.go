package watch_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// changesAt returns n changes of the entry at index, some of which share a stamp.
func changesAt(random *rand.Rand, index uint64, n int) []tree.Change {
	var changes []tree.Change
	position := 1
	for i := range n {
		position += random.IntN(2)
		changes = append(changes, tree.Change{
			Stamp: tree.StampAt(index, position), Kind: tree.DataSet, Path: fmt.Sprintf("/%d", i),
		})
	}
	return changes
}

// TestRingModel holds a ring against a list of everything, over appends, overflows and restores.
func TestRingModel(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		limits := watch.RingLimits{
			Items: one(random, []int{1, 5, 40, 3000}), Bytes: one(random, []int{1, 1000, 1 << 20}),
		}
		index := uint64(random.IntN(3))
		ring := watch.NewTreeRing(limits, index)
		start, all := watch.End(index), []tree.Change(nil)
		for range 60 {
			index += 1 + uint64(random.IntN(3))
			switch random.IntN(12) {
			case 0:
				ring.Reset(index)
				start, all = watch.End(index), nil
			default:
				more := changesAt(random, index, random.IntN(12))
				ring.Append(index, more...)
				all = append(all, more...)
			}
			if ring.Start() < start {
				t.Fatalf("seed %d: starts at %v, before %v", seed, ring.Start(), start)
			}
			// What is gone is gone for a reason: with a chunk more, and what shares a stamp with it, a limit would be passed.
			held, bytes, slack := 0, 0, max(1, limits.Items/1024)+12
			for _, c := range all {
				if c.Stamp > ring.Start() {
					held, bytes = held+1, bytes+64+len(c.Path)
				}
			}
			if held+slack < limits.Items && bytes+slack*67 < limits.Bytes && ring.Start() != start {
				t.Fatalf("seed %d: %d items of %d and %d bytes of %d are left", seed, held, limits.Items, bytes, limits.Bytes)
			}
			for range 4 {
				after, through := watch.End(uint64(random.IntN(int(index+1)))), watch.End(uint64(random.IntN(int(index+1))))
				if len(all) > 0 && random.IntN(2) == 0 {
					after = all[random.IntN(len(all))].Stamp
				}
				got, ok := ring.Range(after, through)
				if ok != (after >= ring.Start()) {
					t.Fatalf("seed %d: range after %v: %v, start is %v", seed, after, ok, ring.Start())
				}
				if !ok {
					continue
				}
				var want, has []tree.Change
				for _, c := range all {
					if c.Stamp > after && c.Stamp <= through {
						want = append(want, c)
					}
				}
				for c := range got {
					has = append(has, *c)
				}
				if !slices.Equal(has, want) {
					t.Fatalf("seed %d: (%v, %v]: got %v, want %v", seed, after, through, has, want)
				}
			}
		}
	}
}

// TestRingKeepsItsItems: a ring of the real size has its newest 262,144 changes, and drops the rest.
func TestRingKeepsItsItems(t *testing.T) {
	limits := watch.DefaultRingLimits()
	ring := watch.NewTreeRing(limits, 0)
	const entries = 3000
	for index := uint64(1); index <= entries; index++ {
		ring.Append(index, changesAt(rand.New(rand.NewPCG(index, 1)), index, 100)...)
	}
	start, newest := ring.Start().Index(), uint64(entries-limits.Items/100)
	if start > newest || start < newest-5 {
		t.Errorf("starts at %d, want about %d", start, newest)
	}
	long := make([]byte, 4096)
	for index := uint64(entries + 1); index <= 2*entries; index++ {
		changes := changesAt(rand.New(rand.NewPCG(index, 1)), index, 10)
		for i := range changes {
			changes[i].Path = string(long)
		}
		ring.Append(index, changes...)
	}
	start, newest = ring.Start().Index(), uint64(2*entries-limits.Bytes/4160/10)
	if start > newest+30 || start < newest-5 {
		t.Errorf("with long paths it starts at %d, want about %d", start, newest)
	}
}

// TestRingReadersDoNotWait: readers see every change up to an index that was published after them, or learn that some
// are gone, while the writer appends, overflows and resets.
func TestRingReadersDoNotWait(t *testing.T) {
	ring := watch.NewTreeRing(watch.RingLimits{Items: 3000, Bytes: 1 << 20}, 0)
	var published atomic.Uint64
	const entries = 20_000
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			at, behind, read := uint64(0), 0, 0
			for at < entries {
				index := published.Load()
				got, ok := ring.Range(watch.End(at), watch.End(index))
				if !ok {
					behind++
					at = index
					continue
				}
				for c := range got {
					switch {
					case c.Stamp.Index() == at+1 && c.Stamp.Position() == 1:
						at++
					case c.Stamp.Index() != at || c.Stamp.Position() != 2 && c.Stamp.Position() != 3:
						t.Errorf("%v after entry %d", c.Stamp, at)
						return
					}
					read++
				}
				if at != index {
					t.Errorf("range up to entry %d ended at %d", index, at)
					return
				}
			}
			t.Logf("read %d changes, was behind %d times", read, behind)
		})
	}
	for index := uint64(1); index <= entries; index++ {
		if index%5000 == 0 {
			ring.Reset(index)
		} else {
			ring.Append(index, tree.Change{Stamp: tree.StampAt(index, 1)}, tree.Change{Stamp: tree.StampAt(index, 2)},
				tree.Change{Stamp: tree.StampAt(index, 3)})
		}
		published.Store(index)
	}
	readers.Wait()
}

// TestRingRefusesDisorder: a change that is not newer than all others, or not of its entry, is a broken invariant.
func TestRingRefusesDisorder(t *testing.T) {
	for name, do := range map[string]func(*watch.TreeRing){
		"an entry twice": func(r *watch.TreeRing) {
			r.Append(6, tree.Change{Stamp: tree.StampAt(6, 1)})
			r.Append(6, tree.Change{Stamp: tree.StampAt(6, 2)})
		},
		"at the snapshot":  func(r *watch.TreeRing) { r.Append(5, tree.Change{Stamp: tree.StampAt(5, 1)}) },
		"of another entry": func(r *watch.TreeRing) { r.Append(6, tree.Change{Stamp: tree.StampAt(7, 1)}) },
		"backwards": func(r *watch.TreeRing) {
			r.Append(6, tree.Change{Stamp: tree.StampAt(6, 2)}, tree.Change{Stamp: tree.StampAt(6, 1)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			do(watch.NewTreeRing(watch.DefaultRingLimits(), 5))
		})
	}
}

// TestSessionRing: changes of sessions count, and ends with their certificates.
func TestSessionRing(t *testing.T) {
	ring := watch.NewSessionRing(watch.RingLimits{Items: 100, Bytes: 3000}, 0)
	for index := uint64(1); index <= 50; index++ {
		ring.Append(index, session.Change{
			Stamp: tree.StampAt(index, 1), Kind: session.Opened, Session: session.Session{ID: session.ID(index)},
		})
	}
	got, ok := ring.Range(tree.StampAt(45, 1), watch.End(50))
	if !ok {
		t.Fatalf("starts at %v", ring.Start())
	}
	var ids []session.ID
	for c := range got {
		ids = append(ids, c.Session.ID)
	}
	if want := []session.ID{46, 47, 48, 49, 50}; !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
	if _, ok := ring.Range(tree.StampAt(30, 1), watch.End(50)); ok {
		t.Error("holds 20 changes of 192 bytes in 3000 bytes")
	}
	for index := uint64(51); index <= 100; index++ {
		ring.Append(index, session.Change{
			Stamp: tree.StampAt(index, 1), Kind: session.Ended, Certificate: &session.Certificate{},
		})
	}
	if _, ok := ring.Range(tree.StampAt(94, 1), watch.End(100)); ok {
		t.Error("holds 6 ends of 576 bytes in 3000 bytes")
	}
}

// An entry that appends more than the ring holds leaves few of the dropped changes in memory.
func TestARingLetsDroppedChangesGo(t *testing.T) {
	const changes, large = 300, 100_000
	type change struct {
		stamp tree.Stamp
		data  []byte
	}
	ring := watch.NewRing(watch.RingLimits{Items: 1024, Bytes: large}, 0, func(c *change) tree.Stamp { return c.stamp },
		func(c *change) int { return len(c.data) })
	var all []change
	for i := range changes {
		all = append(all, change{tree.StampAt(1, i), make([]byte, large)})
	}
	before := heap()
	ring.Append(1, all...)
	all = nil
	if freed := int(before) - int(heap()); freed < changes/2*large {
		t.Errorf("%d bytes of %d are freed", freed, changes*large)
	}
	runtime.KeepAlive(ring)
	runtime.KeepAlive(all)
}
