package fsm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
	"holdfast/tree/store"
)

// TestTreeReplicas plays drawn histories to replicas, one of which is restored again and again. They agree in
// everything, and what hangs on sessions is there exactly while they live (I12 no orphans).
func TestTreeReplicas(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := &treeHistory{Rand: rand.New(rand.NewPCG(seed, 14)), one: newTree(t), seen: seen}
			h.other = observed(restored(t, h.one.snapshot(t)))
			h.one.Observe(h)
			for range 120 {
				h.entry(t)
			}
		})
	}
	for _, what := range []string{
		"result", "refused", "gap", "unknown", "moved", "expired", "no instance", "repeat", "will carried out",
		"will refused", "will dropped", "ephemerals", "floor",
	} {
		if seen[what] == 0 {
			t.Errorf("no history has: %s", what)
		}
	}
	t.Log(seen)
}

type treeHistory struct {
	*rand.Rand
	one, other *withTree
	sessions   []session.Session
	numbers    map[session.ID]uint64
	opened     byte
	// ended has the certificates of the newest entry.
	ended []session.Certificate
	// seen counts what the histories have.
	seen map[string]int
}

// entry plays an entry of some commands to both replicas.
func (h *treeHistory) entry(t *testing.T) {
	t.Helper()
	var commands []session.Command
	for range 1 + h.IntN(5) {
		commands = append(commands, h.command(t))
	}
	clock := h.one.clock + time.Duration(h.IntN(4000))*time.Millisecond
	h.one.clock, h.other.clock = clock, clock
	results := h.one.at(t, commands...)
	if again := h.other.at(t, commands...); !agree(results, again) {
		t.Fatalf("results %+v\nand %+v", results, again)
	}
	if !agree(h.one.changes, h.other.changes) || !agree(h.one.wrote, h.other.wrote) {
		t.Fatalf("observers are told %+v %+v\nand %+v %+v", h.one.changes, h.one.wrote, h.other.changes, h.other.wrote)
	}
	h.note(results)
	h.count(t)
	if _, a := h.one.Digest(); a != h.other.tables.digest() {
		t.Fatal("replicas differ after the same entry (I6)")
	}
	for _, r := range []*withTree{h.one, h.other} {
		if err := r.Scrub(nil); err != nil {
			t.Fatal(err)
		}
	}
	h.owners(t)
	if h.IntN(8) == 0 {
		clock := h.other.clock
		b := h.one.snapshot(t)
		h.other = observed(restored(t, b))
		h.other.clock = clock
		if again := h.other.snapshot(t); !slices.Equal(b, again) {
			t.Fatal("a restored state writes another snapshot")
		}
	}
}

// count counts what the newest entry did.
func (h *treeHistory) count(t *testing.T) {
	t.Helper()
	for i, w := range h.one.wrote {
		var gap *tree.GapError
		result, err := h.one.outcome(t, i)
		switch {
		case errors.As(err, &gap):
			h.seen["gap"]++
		case errors.Is(err, session.ErrOutcomeUnknown):
			h.seen["unknown"]++
		case errors.Is(err, session.ErrMoved):
			h.seen["moved"]++
		case errors.Is(err, session.ErrExpired):
			h.seen["expired"]++
		case errors.Is(err, session.ErrNoInstance):
			h.seen["no instance"]++
		case err != nil:
			t.Errorf("a write of the history: %v", err)
		case result.Stamp != w.At:
			h.seen["repeat"]++
		case result.Outcome.Refused != nil:
			h.seen["refused"]++
		default:
			h.seen["result"]++
		}
	}
	for _, c := range h.ended {
		h.seen["ephemerals"] += int(c.Left.Ephemerals)
		h.seen["will "+c.Left.Will.String()]++
		if c.Left.Floor > 0 {
			h.seen["floor"]++
		}
	}
	h.ended = nil
}

func (h *treeHistory) Applied(_, _ uint64, changes []session.Change) {
	for _, c := range changes {
		if c.Kind == session.Ended {
			h.ended = append(h.ended, *c.Certificate)
			if h.IntN(4) > 0 {
				h.sessions = slices.DeleteFunc(h.sessions, func(o session.Session) bool { return o.ID == c.Session.ID })
			}
		}
	}
}

func (*treeHistory) Restored() {}

// owners checks that each ephemeral has a living owner.
func (h *treeHistory) owners(t *testing.T) {
	t.Helper()
	h.one.now.Root.Records(func(r store.Record) bool {
		if _, ok := h.one.Session(session.ID(r.Owner)); r.Owner != 0 && !ok {
			t.Errorf("%s outlives its session (I12)", r.Path)
		}
		return true
	})
}

// note keeps the sessions that the entry opened and moved.
func (h *treeHistory) note(results []session.Result) {
	for _, r := range results {
		if s := r.Session; s.ID != 0 && r.Err == nil {
			h.sessions = slices.DeleteFunc(h.sessions, func(o session.Session) bool { return o.ID == s.ID })
			h.sessions = append(h.sessions, s)
		}
	}
	h.numbers = map[session.ID]uint64{}
}

func (h *treeHistory) command(t *testing.T) session.Command {
	t.Helper()
	if len(h.sessions) == 0 || h.IntN(12) == 0 {
		h.opened++
		o := opening(h.opened)
		o.Instance = uint64(h.IntN(3))
		return o
	}
	s := h.sessions[h.IntN(len(h.sessions))]
	switch h.IntN(12) {
	case 0:
		return session.MoveSession{
			ID: s.ID, NewOwner: 2, Instance: 1 + uint64(h.IntN(3)), Attempt: 1 + uint64(h.IntN(9)), Named: s.Attachment,
		}
	case 1:
		end := closing(1, s)
		end.Cause = session.Cause(1 + h.IntN(2))
		return end
	case 2:
		return acknowledging(t, tree.Acknowledgement{Session: uint64(s.ID), UpTo: 1 + uint64(h.IntN(20))})
	case 3:
		if due := h.one.now.Root.Due(time.Hour*24, 5); len(due) > 0 {
			encoded, err := form.AppendReap(nil, due)
			if err != nil {
				t.Fatal(err)
			}
			return session.TreeCommand{Encoded: encoded, Weight: len(due)}
		}
	}
	return writing(t, h.aWrite(s))
}

func (h *treeHistory) aWrite(s session.Session) tree.NumberedWrite {
	now, _ := h.one.now.Writers.Writer(uint64(s.ID))
	h.numbers[s.ID]++
	w := numbered(s, now.Applied+h.numbers[s.ID])
	if h.IntN(10) == 0 {
		w.Number = 1 + uint64(h.IntN(20))
	}
	w.Acked = uint64(h.IntN(int(w.Number)))
	if w.Void = h.IntN(12) == 0; w.Void {
		return w
	}
	for range h.IntN(4) {
		w.Transaction.Then = append(w.Transaction.Then, h.op())
	}
	if h.IntN(6) == 0 {
		w.Will = &tree.Will{OnClose: h.IntN(2) == 0}
		for range h.IntN(3) {
			op := h.op()
			if c, ok := op.(tree.Create); ok && c.Kind == tree.Ephemeral {
				continue
			}
			w.Will.Transaction.Then = append(w.Will.Transaction.Then, op)
		}
	}
	return w
}

func (h *treeHistory) op() tree.Op {
	path := fmt.Sprintf("/%c", 'a'+h.IntN(4))
	if h.IntN(2) == 0 {
		path += fmt.Sprintf("/%c", 'a'+h.IntN(3))
	}
	switch h.IntN(9) {
	case 0:
		return tree.Set{Path: path, Data: []byte(path), Version: tree.Any}
	case 1:
		return tree.Delete{Path: path, Version: tree.Any}
	case 2:
		return tree.DeleteTree{Path: path}
	case 3:
		return tree.Create{Path: path, Kind: tree.Expiring, TTL: time.Duration(1+h.IntN(9)) * time.Second}
	case 4:
		return tree.Create{Path: path, Kind: tree.Container}
	case 5:
		return tree.Create{Path: path, Kind: tree.Persistent, ACL: tree.Open()}
	case 6:
		return tree.Create{Path: path, Kind: tree.Ephemeral, LockDelay: time.Duration(h.IntN(3)) * time.Second}
	default:
		return tree.Create{Path: path, Kind: tree.Ephemeral, Sequential: h.IntN(2) == 0}
	}
}

// agree reports whether two replicas say the same, errors included.
func agree(a, b any) bool { return reflect.DeepEqual(a, b) }
