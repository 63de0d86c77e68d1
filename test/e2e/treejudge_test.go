//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"holdfast/client"
	"holdfast/test/timeout"
	"holdfast/tree"
)

// judge compares what the clients were told with what is there, when the test ends. A test that has timed out may leave
// a cluster that answers no reads: then it judges the records alone.
func (w *wood) judge() {
	t := w.c.t
	t.Helper()
	for i, heard := range w.watches {
		heard.judge(t, i, w.felled)
	}
	if len(w.workers) < treeClients {
		return // the test ended before they worked
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*treeOpWithin)
	defer cancel()
	var unread []error
	if w.felled {
		unread = append(unread, w.judgeServices(ctx))
	}
	made := 0
	for _, one := range w.workers {
		made += len(one.made)
		if !slices.IsSorted(one.made) {
			t.Errorf("I10: client %d made its entries in the order %v", one.number, one.made)
		}
		if w.felling && one.number < treeLeft {
			continue // its last operations met the end of its session
		}
		for _, err := range one.errs {
			unread = append(unread, fmt.Errorf("client %d: %w", one.number, err))
		}
	}
	count(t, "sequential entries acknowledged", "", made)
	unread = append(unread, w.judgeCounters(ctx))
	for _, one := range w.workers {
		unread = append(unread, w.judgeMade(ctx, one))
	}
	timeout.Check(t, timeout.Join(unread...))
}

func (w *wood) judgeServices(ctx context.Context) error {
	names, err := w.services(ctx)
	if err != nil {
		return err
	}
	for i, one := range w.workers {
		lives := i >= treeLeft
		if there := slices.Contains(names, one.name()); there != lives {
			w.c.t.Errorf("I12: /services/%d is there: %v; its session lives: %v (%v)", i, there, lives,
				one.account.session.Err())
		}
	}
	return nil
}

func (w *wood) judgeCounters(ctx context.Context) error {
	t := w.c.t
	total := 0
	for n := range counters {
		now, err := w.reads().Get(ctx, fmt.Sprintf("/counters/%d", n))
		if err != nil {
			return err
		}
		value, err := strconv.Atoi(string(now.Data))
		if err != nil {
			return err
		}
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
	if w.felled && total == 0 {
		t.Error("nobody has counted: the test shows nothing")
	}
	return nil
}

func (w *wood) judgeMade(ctx context.Context, one *woodcutter) error {
	t := w.c.t
	var there []string
	for child, err := range w.reads().List(ctx, "/ledger/"+one.name(), client.Listing{PageSize: tree.MaxPage}) {
		if errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) && len(one.made) == 0 && !w.felled {
			return nil // the test ended before it made any
		}
		if err != nil {
			return fmt.Errorf("list what client %d has made: %w", one.number, err)
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
	return nil
}

// judge fails for what a watcher should have heard.
func (h *watched) judge(t *testing.T, number int, felled bool) { //nolint:revive // flag-parameter: set when all were made
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
	if full && felled && h.events < treeClients {
		t.Errorf("I11: watcher %d heard of %d events, and %d ephemerals were made", number, h.events, treeClients)
	}
}
