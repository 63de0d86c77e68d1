package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

const (
	// counterPath is the entry that all scribes set.
	counterPath = "/counter"
	// givesUp is how long a scribe waits for an answer; then it gives a write up (X6 giving up).
	givesUp = 8 * time.Second
)

// shelf is the ephemerals that scribes have made.
type shelf struct {
	mu   sync.Mutex
	made []ephemeral // guarded by mu
}

type ephemeral struct {
	path  string
	owner session.ID
}

func (s *shelf) add(e ephemeral) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made = append(s.made, e)
}

func (s *shelf) all() []ephemeral {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.made)
}

// scribe is a tenant that writes to the tree and reads it, with one request at a time.
type scribe struct {
	*tenant
	shelf *shelf
	// written numbers the data. version is the counter's, as far as the scribe knows. Only work uses them.
	written int
	version int64
}

func (w *world) scribe(name string, s *shelf) *scribe {
	return &scribe{tenant: w.tenant(name), shelf: s}
}

// work holds one session after the other until ctx ends, and uses the tree with each.
func (x *scribe) work(ctx context.Context) {
	for ctx.Err() == nil {
		s := x.open(ctx, 30*time.Second)
		if s == nil {
			sleep(ctx, 500*time.Millisecond) // the open may have been refused at once
			continue
		}
		x.serve(ctx, s)
		if ctx.Err() == nil && x.draw(2) == 0 {
			x.close(ctx, s)
		}
	}
}

// serve uses the tree with a session, for a while or until the session ends.
func (x *scribe) serve(ctx context.Context, s *client.Session) {
	own := ephemeral{path: fmt.Sprintf("/own/%d", uint64(s.ID())), owner: s.ID()}
	x.write(ctx, s, history.Entry{Path: counterPath, Expected: tree.Any},
		tree.Create{Path: counterPath, Kind: tree.Persistent})
	x.shelf.add(own)
	x.write(ctx, s, history.Entry{Path: own.path, Expected: tree.Any},
		tree.Create{Path: own.path, Kind: tree.Ephemeral, Parents: true})
	for range 10 + x.draw(30) {
		if ctx.Err() != nil || s.Err() != nil {
			return
		}
		x.step(ctx, s)
		sleep(ctx, x.between(300*time.Millisecond, 1800*time.Millisecond))
	}
}

// step makes one request.
func (x *scribe) step(ctx context.Context, s *client.Session) {
	switch x.draw(6) {
	case 0, 1:
		x.count(ctx, s)
	case 2:
		x.write(ctx, s, history.Entry{Path: "/line/x-", Expected: tree.Any, Sequential: true},
			tree.Create{Path: "/line/x-", Kind: tree.Ephemeral, Parents: true, Sequential: true})
	case 3:
		all := x.shelf.all()
		x.list(ctx, x.name, s.Tree(), all[max(len(all)-8, 0):])
	default:
		x.observe(ctx, s.Tree())
	}
}

// count sets the counter, on the condition that it has the version that the scribe has seen last.
func (x *scribe) count(ctx context.Context, s *client.Session) {
	version := x.version
	x.write(ctx, s, history.Entry{Path: counterPath, Expected: version}, tree.Set{Path: counterPath, Version: version})
}

// write writes, and records the outcome.
func (x *scribe) write(ctx context.Context, s *client.Session, e history.Entry, op tree.Op) {
	ctx, cancel := context.WithTimeout(ctx, givesUp)
	defer cancel()
	x.written++
	e.Data = fmt.Sprintf("%s %d", x.name, x.written)
	sent := x.w.record.Now()
	done, err := s.Tree().Transact(ctx, tree.Transaction{Then: []tree.Op{withData(op, e.Data)}})
	event := history.Event{Kind: history.Wrote, Who: x.name, ID: s.ID(), Sent: sent, Entry: &e}
	refused, _ := errors.AsType[*tree.WriteError](err)
	switch {
	case err == nil && len(done.Outcome.Ops) != 1:
		x.w.failAbout(s.ID(), "%s: %d outcomes of one operation", x.name, len(done.Outcome.Ops))
		return
	case err == nil:
		e.Stamp, e.Stat = done.Stamp, done.Outcome.Ops[0].Stat
		if e.Sequential {
			e.Path = done.Outcome.Ops[0].Path
		}
	case refused != nil:
		e.Stamp, e.Refused = refused.Stamp, refused.Refused.Code
	case errors.Is(err, client.ErrNoEffect):
		return // if it took effect nevertheless, its data will be found in the tree
	default:
		event.Kind, event.Text = history.WriteLost, err.Error()
	}
	x.w.record.Add(event)
}

func withData(op tree.Op, data string) tree.Op {
	switch op := op.(type) {
	case tree.Create:
		op.Data = []byte(data)
		return op
	case tree.Set:
		op.Data = []byte(data)
		return op
	default:
		return op
	}
}

// observe reads the counter, and records the answer.
func (x *scribe) observe(ctx context.Context, t *client.Tree) {
	ctx, cancel := context.WithTimeout(ctx, givesUp)
	defer cancel()
	e := history.Entry{Path: counterPath, Linearizable: x.draw(2) == 0, Exists: true}
	sent := x.w.record.Now()
	found, err := t.Get(ctx, counterPath, how(e.Linearizable)...)
	if err != nil {
		return
	}
	e.Data, e.Stat, e.Stamp = string(found.Data), found.Stat, found.Stamp
	x.version = e.Stat.Version
	x.w.record.Add(history.Event{Kind: history.TreeRead, Who: x.name, Sent: sent, Entry: &e})
}

func how(linearizable bool) []client.ReadOption { //nolint:revive // flag-parameter: a drawn value
	if linearizable {
		return []client.ReadOption{client.Linearizable()}
	}
	return nil
}

// list lists the ephemerals, and records for some of them whether they were shown. It reports false if there was no
// answer.
func (x *scribe) list(ctx context.Context, who string, t *client.Tree, all []ephemeral) bool {
	ctx, cancel := context.WithTimeout(ctx, givesUp)
	defer cancel()
	linearizable := x.draw(2) == 0
	sent := x.w.record.Now()
	page, err := t.ListPage(ctx, "/own", client.Listing{PageSize: tree.MaxPage, WithData: true}, how(linearizable)...)
	if err != nil {
		return errors.Is(err, &tree.RefusedError{Code: tree.NoNode})
	}
	for _, of := range all {
		e := history.Entry{Path: of.path, Linearizable: linearizable, Stamp: page.Stamp}
		for _, c := range page.Children {
			if tree.Join("/own", c.Name) == of.path {
				e.Exists, e.Data, e.Stat = true, string(c.Data), c.Stat
			}
		}
		x.w.record.Add(history.Event{Kind: history.TreeRead, Who: who, ID: of.owner, Sent: sent, Entry: &e})
	}
	return true
}

// lookBack lists all ephemerals that there ever were, long after the last fault.
func (x *scribe) lookBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	for !x.list(ctx, x.name+" at last", x.client.Tree(), x.shelf.all()) {
		if ctx.Err() != nil {
			x.w.failf("%s: the tree could not be read within %v, long after the last fault", x.name, recovery)
			return
		}
		sleep(ctx, 500*time.Millisecond)
	}
}
