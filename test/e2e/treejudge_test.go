//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"holdfast/client"
	"holdfast/test/timeout"
	"holdfast/tree"
)

// judge compares what the clients were told with what is there.
func (w *wood) judge() {
	t := w.c.t
	t.Helper()
	w.c.awaitServing(2*healWithin, w.c.all()...) // with the same digest
	names, err := w.services()
	timeout.Check(t, err)
	for i, one := range w.workers {
		lives := i >= 20
		if there := slices.Contains(names, one.name()); there != lives {
			t.Errorf("I12: /services/%d is there: %v; its session lives: %v (%v)", i, there, lives,
				one.account.session.Err())
		}
		if i < 20 {
			continue // its last operations met the end of its session
		}
		for _, err := range one.errs {
			t.Errorf("client %d: %v", i, err)
		}
	}
	w.judgeCounters()
	made := 0
	for _, one := range w.workers {
		made += w.judgeMade(one)
	}
	count(t, "sequential entries acknowledged", "", made)
	for i, heard := range w.watches {
		heard.judge(t, i)
	}
}

func (w *wood) judgeCounters() {
	t := w.c.t
	ctx, cancel := context.WithTimeout(t.Context(), treeOpWithin)
	defer cancel()
	reads := w.workers[len(w.workers)-1].client.Tree(client.Linearizable())
	total := 0
	for n := range counters {
		now, err := reads.Get(ctx, fmt.Sprintf("/counters/%d", n))
		timeout.Check(t, err)
		value, err := strconv.Atoi(string(now.Data))
		timeout.Check(t, err)
		added, unknown := 0, 0
		for _, one := range w.workers {
			added, unknown = added+one.added[n], unknown+one.unknown[n]
		}
		if value < added || value > added+unknown {
			t.Errorf("I9: counter %d is %d; %d increments were acknowledged, %d are unknown", n, value, added, unknown)
		}
		total += added
	}
	count(t, "increments acknowledged", "", total)
	if total == 0 {
		t.Error("nobody has counted: the test shows nothing")
	}
}

func (w *wood) judgeMade(one *woodcutter) int {
	t := w.c.t
	ctx, cancel := context.WithTimeout(t.Context(), treeOpWithin)
	defer cancel()
	reads := w.workers[len(w.workers)-1].client.Tree(client.Linearizable())
	var there []string
	for child, err := range reads.List(ctx, "/ledger/"+one.name(), client.Listing{PageSize: tree.MaxPage}) {
		if err != nil {
			t.Errorf("list what client %d has made: %v", one.number, err)
			return 0
		}
		there = append(there, "/ledger/"+one.name()+"/"+child.Name)
	}
	if len(there) > one.asked {
		t.Errorf("I9: client %d asked for %d entries, and %d are there", one.number, one.asked, len(there))
	}
	for _, path := range one.made {
		if _, found := slices.BinarySearch(there, path); !found {
			t.Errorf("I9: %s was acknowledged, and is not there", path)
		}
	}
	if !slices.IsSorted(one.made) {
		t.Errorf("I10: client %d made its entries in the order %v", one.number, one.made)
	}
	return len(one.made)
}

// judge fails for what a watcher should have heard.
func (h *watched) judge(t *testing.T, number int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		t.Errorf("watcher %d: %v", number, h.err)
	}
	count(t, "events told to a watcher", "", h.events)
	if h.lost > 0 {
		count(t, "LOST told to a watcher", "", h.lost)
		return
	}
	if full && h.events < treeClients {
		t.Errorf("I11: watcher %d heard of %d events, and %d ephemerals were made", number, h.events, treeClients)
	}
}
