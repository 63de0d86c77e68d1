package check

import (
	"slices"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/model/plain"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// clerk writes a log in which nothing is wrong. The index of an entry is also its moment in seconds.
type clerk struct {
	tree   *plain.Tree
	index  uint64
	events []history.Event
	// principals are who writes.
	principals []tree.Principal
}

// entry begins an entry of the log.
func (k *clerk) entry(index uint64) *history.Ledger {
	l := &history.Ledger{Clock: at(float64(index))}
	k.index = index
	k.events = append(k.events, history.Event{
		At: at(float64(index)), Kind: history.Committed, Who: "n1", Index: index, Ledger: l,
	})
	return l
}

func (k *clerk) stamp(position int) tree.Stamp {
	return tree.StampAt(k.index, position)
}

// write adds a write that takes effect.
func (k *clerk) write(l *history.Ledger, position int, attachment, number uint64, x tree.Transaction) *history.Write {
	at := plain.At{Stamp: k.stamp(position), Clock: l.Clock, Session: uint64(id), Principals: k.principals}
	outcome, changes := k.tree.Do(at, x)
	l.Changes = append(l.Changes, changes...)
	w := history.Write{At: at.Stamp, Result: &tree.Result{Stamp: at.Stamp, Outcome: outcome}}
	w.Session, w.Attachment, w.Number, w.Acked, w.Transaction = uint64(id), attachment, number, number-1, x
	w.Principals = k.principals
	l.Writes = append(l.Writes, w)
	return &l.Writes[len(l.Writes)-1]
}

// left adds a write that is left alone.
func (k *clerk) left(l *history.Ledger, position int, attachment, number uint64, err error) {
	w := history.Write{At: k.stamp(position), Err: err}
	w.Session, w.Attachment, w.Number = uint64(id), attachment, number
	l.Writes = append(l.Writes, w)
}

// session adds an event of the session.
func (k *clerk) session(l *history.Ledger, position int, kind session.ChangeKind, attachment, instance uint64) {
	c := session.Change{Kind: kind, Stamp: k.stamp(position)}
	c.Session = session.Session{ID: id, Attachment: attachment, Instance: instance}
	if kind == session.Ended {
		c.Certificate = &session.Certificate{Cause: session.CauseExpired}
		will := plain.Will{Transaction: tree.Transaction{Then: []tree.Op{set(tree.Any, "will")}}}
		at := plain.At{Stamp: c.Stamp, Clock: l.Clock}
		l.Changes = append(l.Changes, k.tree.End(at, uint64(id), true, &will)...)
	}
	l.Sessions = append(l.Sessions, c)
}

func tagged(tag uint64, ops ...tree.Op) tree.Transaction {
	return tree.Transaction{
		If:   []tree.Condition{{Path: tree.Root, Property: tree.Exists, Is: tree.NotEqual, Value: tag}},
		Then: ops,
	}
}

// called adds a client's answer to a write.
func (k *clerk) called(sent, reported float64, tag uint64, fate history.Fate, w *history.Write) {
	c := &history.Call{Tag: tag, Handle: 1, Fate: fate}
	if fate == history.Answered {
		c.Transaction, c.Result = w.Transaction, *w.Result
	}
	k.events = append(k.events, history.Event{
		At: at(reported), Sent: at(sent), Kind: history.Called, Who: "a1", ID: id, Call: c,
	})
}

// found adds that a client was shown something.
func (k *clerk) found(sent, reported float64, index uint64, e history.Entry) {
	e.Stamp, e.Handle = tree.StampAt(index, tree.MaxPosition), 1
	k.events = append(k.events, history.Event{
		At: at(reported), Sent: at(sent), Kind: history.Found, Who: "a1", ID: id, Entry: &e,
	})
}

func set(version int64, data string) tree.Op {
	return tree.Set{Path: "/r", Version: version, Data: []byte(data)}
}

// annal is a correct log, with a client's answers. A session writes, another process takes it over, it expires, and an
// entry ends on its own.
func annal() []history.Event {
	k := &clerk{tree: plain.New(0)}
	l := k.entry(10)
	k.session(l, 1, session.Opened, 1, 11)
	l = k.entry(11)
	k.write(l, 1, 1, 1, tagged(101, tree.Create{Path: "/r", Kind: tree.Persistent, Data: []byte("one")}))
	k.write(l, 2, 1, 2, tagged(102, tree.Create{Path: "/e", Kind: tree.Ephemeral},
		tree.Create{Path: "/t", Kind: tree.Expiring, TTL: 3 * second}))
	first, second := &l.Writes[0], &l.Writes[1]
	k.called(10.2, 11.1, 101, history.Answered, first)
	k.called(10.3, 11.1, 102, history.Answered, second)
	n, _ := k.tree.Get("/r")
	k.found(10.5, 11.2, 11, history.Entry{Path: "/r", Exists: true, Data: "one", Stat: n.Shown(), Linearizable: true})
	n, _ = k.tree.Get(tree.Root)
	k.found(10.5, 11.2, 11, history.Entry{
		Path: tree.Root, Exists: true, Lists: true, Names: []string{"e", "r", "t", "zookeeper"}, Stat: n.Shown(),
	})
	k.found(10.5, 11.2, 11, history.Entry{Owner: id, Exists: true, Names: []string{"/e"}})
	l = k.entry(12)
	third := k.write(l, 1, 1, 3, tagged(103, set(0, "three")))
	third.Will = &tree.Will{Transaction: tree.Transaction{Then: []tree.Op{set(tree.Any, "will")}}}
	again := *second
	again.At = k.stamp(2)
	l.Writes = append(l.Writes, again)
	k.called(11.5, 11.9, 103, history.InDoubt, nil)
	k.called(11.6, 12.1, 104, history.NoEffect, nil)
	l = k.entry(13)
	k.session(l, 1, session.Moved, 2, 22)
	k.left(l, 2, 1, 4, &session.MovedError{})
	k.left(l, 3, 2, 2, session.ErrOutcomeUnknown)
	l = k.entry(14)
	fourth := k.write(l, 1, 2, 4, tagged(105, set(0, "four"))) // refused
	k.called(13.5, 14.1, 105, history.Answered, fourth)
	k.left(l, 2, 2, 6, &tree.GapError{Expected: 5})
	l = k.entry(15)
	changes, _ := k.tree.Reap(plain.At{Stamp: k.stamp(1), Clock: l.Clock}, "/t")
	l.Changes = append(l.Changes, changes...)
	l = k.entry(16)
	k.session(l, 2, session.Ended, 2, 22)
	for _, path := range k.tree.Paths() {
		n, _ := k.tree.Get(path)
		l.Whole = append(l.Whole, history.Leaf{Path: path, Stat: n.Shown()})
	}
	return k.events
}

// judgeLedger returns what the judge of the log says.
func judgeLedger(h []history.Event) Result {
	v := &verdict{Result: Result{Checked: make(map[string]int)}}
	j := judge{newFacts(bounds()), v}
	for _, e := range h {
		j.note(e, v)
	}
	replays{j}.check()
	return v.Result
}

// TestLedger breaks the log, or the client's answers, in one way after the other.
func TestLedger(t *testing.T) {
	r := judgeLedger(annal())
	if len(r.Violations) > 0 {
		t.Fatalf("a log in which nothing is wrong: %v", r.Violations)
	}
	for _, name := range []string{
		"I9 replay", "I9 outcome", "I9 repeat", "I9 left", "I9 answered", "I9 in doubt", "I9 no effect", "I9 after",
		"I10 number", "I10 called", "I12 end", "I13 exact", "I13 seen", "I16 whole", "D5 reap", "G3", "U3 will", "R4 tree",
	} {
		if r.Checked[name] == 0 {
			t.Errorf("%s was not put to the test", name)
		}
	}
	for _, c := range []struct {
		name, invariant string
		plant           func(in map[uint64]*history.Ledger, called, found []*history.Event)
	}{
		{"a write took effect twice", "I9", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			w := in[14].Writes[0]
			w.Transaction = in[11].Writes[0].Transaction
			in[14].Writes[0] = w
		}},
		{"a number is missing", "I10", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[14].Writes[0].Number = 5
		}},
		{"under a former attachment", "I10", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[14].Writes[0].Attachment = 1
		}},
		{"after the end of the session", "I10", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[10].Sessions[0].Kind, in[10].Sessions[0].Certificate = session.Ended, &session.Certificate{}
		}},
		{"a condition was not looked at", "I9", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[14].Writes[0].Result.Outcome = tree.Outcome{Ops: make([]tree.OpOutcome, 1)}
		}},
		{"a result is another entry's", "I9", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[11].Writes[0].Result.Outcome.Ops[0].Stat.Version++
		}},
		{"a change that no client requested", "I9", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[12].Changes = append(in[12].Changes, tree.Change{Stamp: tree.StampAt(12, 2), Kind: tree.Deleted, Path: "/r"})
		}},
		{"reaped before it was due", "I9", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[15].Clock = at(13)
		}},
		{"a void with the result of a write", "I9", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[12].Writes[0].Void = true
		}},
		{"a repeat has another's result", "I9", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[12].Writes[1].Result = in[11].Writes[0].Result
		}},
		{"a repeat across a take-over", "I9", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[13].Writes[1].Err, in[13].Writes[1].Result = nil, in[11].Writes[1].Result
		}},
		{"left alone as moved", "I9", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[13].Writes[0].Attachment = 2
		}},
		{"left alone as a gap", "I9", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[14].Writes[1].Number = 5
		}},
		{"another gap is reported", "I9", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[14].Writes[1].Err = &tree.GapError{Expected: 4}
		}},
		{"unknown, though its number is free", "I9", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[14].Writes[1].Err = session.ErrOutcomeUnknown
		}},
		{"an ephemeral outlives its owner", "I9", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[16].Changes = in[16].Changes[1:]
		}},
		{"a will is not carried out", "I9", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[16].Changes = in[16].Changes[:1]
		}},
		{"an entry too many", "I12", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[16].Whole = append(in[16].Whole, history.Leaf{Path: "/z"})
		}},
		{"a count that does not fit", "I16", func(in map[uint64]*history.Ledger, _, _ []*history.Event) {
			in[16].Whole[1].Stat.Children++
		}},
		{"answered, and not in the log", "I9", func(_ map[uint64]*history.Ledger, called, _ []*history.Event) {
			called[0].Call.Tag = 999
		}},
		{"answered with another stamp", "I9", func(_ map[uint64]*history.Ledger, called, _ []*history.Event) {
			called[0].Call.Result.Stamp++
		}},
		{"answered with another's result", "I9", func(_ map[uint64]*history.Ledger, called, _ []*history.Event) {
			called[0].Call.Result.Outcome = called[1].Call.Result.Outcome
		}},
		{"another session's", "I9", func(_ map[uint64]*history.Ledger, called, _ []*history.Event) { called[0].ID = id2 }},
		{"reported never, and it took effect", "I9", func(_ map[uint64]*history.Ledger, called, _ []*history.Event) {
			called[2].Call.Fate = history.NoEffect
		}},
		{
			"reported that the result is gone, and there was none", "I9",
			func(_ map[uint64]*history.Ledger, called, _ []*history.Event) {
				called[3].Call.Fate = history.ResultGone
			},
		},
		{"unknown without a reason", "I9", func(_ map[uint64]*history.Ledger, called, _ []*history.Event) {
			called[2].Call.Kept = true
		}},
		{"never answered", "I18", func(_ map[uint64]*history.Ledger, called, _ []*history.Event) {
			called[2].Call.Fate = history.Waiting
		}},
		{"called later, and took effect before", "I10", func(_ map[uint64]*history.Ledger, called, _ []*history.Event) {
			called[0].Sent, called[1].Sent = called[1].Sent, called[0].Sent
		}},
		{"took effect before what had been reported", "I9", func(_ map[uint64]*history.Ledger, called, _ []*history.Event) {
			called[2].Sent, called[2].At = at(14.5), at(15)
		}},
		{"other data", "I13", func(_ map[uint64]*history.Ledger, _, found []*history.Event) { found[0].Entry.Data = "x" }},
		{"nothing there", "I13", func(_ map[uint64]*history.Ledger, _, found []*history.Event) {
			found[0].Entry.Exists = false
		}},
		{"a child is missing", "I13", func(_ map[uint64]*history.Ledger, _, found []*history.Event) {
			found[1].Entry.Names = found[1].Entry.Names[1:]
		}},
		{"an ephemeral is missing", "I12", func(_ map[uint64]*history.Ledger, _, found []*history.Event) {
			found[2].Entry.Names = nil
		}},
		{"a read goes back", "I13", func(_ map[uint64]*history.Ledger, _, found []*history.Event) {
			*found[0].Entry = history.Entry{Path: "/r", Stamp: tree.StampAt(10, tree.MaxPosition)}
			found[0].Sent = at(11.15)
		}},
		{"a linearizable read goes back", "R4", func(_ map[uint64]*history.Ledger, _, found []*history.Event) {
			*found[0].Entry = history.Entry{Path: "/r", Stamp: tree.StampAt(10, tree.MaxPosition), Linearizable: true}
			found[0].Sent, found[0].Who = at(11.15), "a2"
		}},
		{"a read passes an earlier write", "G3", func(_ map[uint64]*history.Ledger, _, found []*history.Event) {
			*found[0].Entry = history.Entry{Path: "/r", Stamp: tree.StampAt(10, tree.MaxPosition), Handle: 1}
		}},
	} {
		h := annal()
		in := make(map[uint64]*history.Ledger)
		var called, found []*history.Event
		for i := range h {
			switch h[i].Kind { //nolint:exhaustive // there are no others
			case history.Committed:
				in[h[i].Index] = h[i].Ledger
			case history.Called:
				called = append(called, &h[i])
			case history.Found:
				found = append(found, &h[i])
			}
		}
		c.plant(in, called, found)
		slices.SortStableFunc(h, func(a, b history.Event) int { return int((a.At - b.At) / time.Millisecond) })
		if !slices.ContainsFunc(judgeLedger(h).Violations, func(v Violation) bool { return v.Invariant == c.invariant }) {
			t.Errorf("%s: no %s", c.name, c.invariant)
		}
	}
}
