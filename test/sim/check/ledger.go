package check

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"holdfast/session"
	"holdfast/test/model/plain"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// ledgers are the log entries with effects, and the requests and answers of clients with many requests at once.
type ledgers struct {
	committed, called, found []history.Event
}

func (l *ledgers) note(e history.Event) {
	switch e.Kind { //nolint:exhaustive // the other kinds are not about the log of the tree
	case history.Committed:
		l.committed = append(l.committed, e)
	case history.Called:
		l.called = append(l.called, e)
	case history.Found:
		l.found = append(l.found, e)
	}
}

// replays replays the log on a plain tree, and compares clients' answers with it, exactly (I9 once, I10 in order, I12
// no orphans, I13 no step back, I15 fences, I16 counts).
type replays struct{ judge }

func (c replays) check() {
	b := &book{
		c: c, tree: openQuotas(plain.New(0)), past: newTreeStates(), writers: make(map[uint64]*writer),
		alive:    make(map[session.ID]bool),
		numbered: make(map[uint64][]history.Write), at: make(map[tree.Stamp]history.Write),
	}
	b.past.record(b.tree, 0)
	slices.SortStableFunc(c.committed, func(a, b history.Event) int { return cmp.Compare(a.Index, b.Index) })
	saved := newBackups(c.judge)
	for _, e := range c.committed {
		saved.before(e.Index, b)
		b.entry(e)
	}
	saved.before(math.MaxUint64, b)
	b.scribes()
	b.calls()
	b.finds()
	veils{watches{judge: c.judge}, b.received, b.past}.check()
	blind{c}.check()
	uses{c.judge, b.past, c.times()}.check()
}

// openQuotas lets every client set quotas, as the nodes of the simulation do.
func openQuotas(t *plain.Tree) *plain.Tree {
	t.OpenQuotas = true
	return t
}

// book is the state of the replay.
type book struct {
	// received are the changes so far, with the access lists that decide about their events.
	received []listedChange
	c        replays
	tree     *plain.Tree
	past     *treeStates
	writers  map[uint64]*writer
	// numbered are the writes that used a number, by the tags of their transactions, at by their stamps.
	numbered map[uint64][]history.Write
	at       map[tree.Stamp]history.Write
	// alive are the sessions that there are.
	alive map[session.ID]bool
	// newest is the index of the last entry.
	newest uint64
}

// writer is a session in the log.
type writer struct {
	attachment, instance  uint64
	ended                 bool
	applied, floor, acked uint64
	results               map[uint64]*tree.Result
	will                  *writtenWill
}

// writtenWill is a will, with the principals of the write that set it.
type writtenWill struct {
	tree.Will
	principals []tree.Principal
}

// writer returns a session. When the replay first meets it, what nodes reported of the session before index counts.
func (b *book) writer(id, index uint64) *writer {
	w := b.writers[id]
	if w != nil {
		return w
	}
	w = &writer{results: make(map[uint64]*tree.Result)}
	b.writers[id] = w
	if l := b.c.lives[session.ID(id)]; l != nil {
		for _, a := range l.applied {
			if a.Index < index && a.Attachment > w.attachment {
				w.attachment, w.instance = a.Attachment, a.Instance
			}
		}
	}
	return w
}

// deedAt is an event at one stamp: a write, a change of a session, or neither: then entries ended on their own.
type deedAt struct {
	stamp   tree.Stamp
	write   *history.Write
	session *session.Change
}

// entry replays an entry of the log.
func (b *book) entry(e history.Event) {
	l := e.Ledger
	b.newest = e.Index
	for _, a := range l.Acknowledged {
		w := b.writer(a.Session, e.Index)
		w.acked = max(w.acked, a.UpTo)
	}
	reported := make(map[tree.Stamp][]tree.Change)
	for _, one := range l.Changes {
		reported[one.Stamp] = append(reported[one.Stamp], tree.Change{Stamp: one.Stamp, Kind: one.Kind, Path: one.Path})
	}
	for _, d := range happened(l, reported) {
		at := plain.At{Stamp: d.stamp, Clock: l.Clock}
		var did []tree.Change
		switch {
		case d.write != nil:
			did = b.write(e, at, d.write)
		case d.session != nil:
			did = b.session(e, at, d.session)
		default:
			did = b.reap(e, at, reported[d.stamp])
		}
		b.c.checked("I9 replay")
		if !slices.Equal(did, reported[d.stamp]) {
			b.fail("I9", e, "at %v the log changes\n%v\nand the node reported\n%v", d.stamp, did, reported[d.stamp])
		}
		b.past.record(b.tree, d.stamp)
		for i, lists := range b.tree.Lists() {
			b.received = append(b.received, listedChange{did[i], lists})
		}
	}
	if l.Whole != nil {
		b.whole(e)
	}
}

// happened returns the events, in the order of the stamps.
func happened(l *history.Ledger, reported map[tree.Stamp][]tree.Change) (all []deedAt) {
	known := make(map[tree.Stamp]bool)
	for i := range l.Writes {
		all = append(all, deedAt{stamp: l.Writes[i].At, write: &l.Writes[i]})
		known[l.Writes[i].At] = true
	}
	for i := range l.Sessions {
		all = append(all, deedAt{stamp: l.Sessions[i].Stamp, session: &l.Sessions[i]})
		known[l.Sessions[i].Stamp] = true
	}
	for stamp := range reported {
		if !known[stamp] {
			all = append(all, deedAt{stamp: stamp})
		}
	}
	slices.SortStableFunc(all, func(a, b deedAt) int { return cmp.Compare(a.stamp, b.stamp) })
	return all
}

// write replays a write (X2 writers, W3 attachment check), and returns its changes.
func (b *book) write(e history.Event, at plain.At, w *history.Write) []tree.Change {
	of := b.writer(w.Session, e.Index)
	if of.attachment == w.Attachment && !of.ended {
		of.acked = max(of.acked, min(w.Acked, of.applied))
	}
	switch {
	case w.Err != nil:
		b.left(e, of, w)
		return nil
	case w.Result.Stamp != w.At:
		b.repeated(e, of, w)
		return nil
	}
	b.c.checked("I10 number")
	switch {
	case of.ended:
		b.fail("I10", e, "a write took effect after the end of its session: %v", w)
	case of.attachment != w.Attachment:
		b.fail("I10", e, "a write took effect where its session has attachment %d: %v", of.attachment, w)
	case w.Number != of.applied+1:
		b.fail("I10", e, "a write took effect behind write %d: %v", of.applied, w)
	}
	of.applied, of.results[w.Number] = w.Number, w.Result
	b.at[w.At] = *w
	if w.Void || w.Result.Void {
		if w.Void != w.Result.Void {
			b.fail("I9", e, "a void has not the result of one, or another write has: %v", w)
		}
		return nil
	}
	tag := tagOf(w.Transaction)
	if before := b.numbered[tag]; tag != 0 && len(before) > 0 {
		b.fail("I9", e, "a write took effect twice: %v; and before that %v", w, before[0])
	}
	b.numbered[tag] = append(b.numbered[tag], *w)
	if b.c.bounds.Small && refusal(w.Result.Outcome) == tree.OverLimit {
		b.c.checked("bound replay")
		return nil
	}
	at.Session, at.Principals = w.Session, w.Principals
	outcome, changes := b.tree.Do(at, w.Transaction)
	b.c.checked("I9 outcome")
	invariant := b.about(outcome, w.Result.Outcome)
	if why := differs(outcome, w.Result.Outcome); why != "" {
		b.fail(invariant, e, "%s: %v", why, w)
	}
	if w.Will != nil && outcome.Refused == nil {
		of.will = &writtenWill{*w.Will, w.Principals}
		if len(w.Will.Transaction.Then)+len(w.Will.Transaction.Else) == 0 {
			of.will = nil
		}
	}
	return changes
}

// about returns the invariant that an outcome is about: I14 if one side has a refusal for want of a permission or of
// space in a quota, else I9.
func (b *book) about(all ...tree.Outcome) string {
	invariant := "I9"
	for _, o := range all {
		switch refusal(o) { //nolint:exhaustive // only these are about I14
		case tree.NoPermission:
			b.c.checked("I14 permission")
			invariant = "I14"
		case tree.OverQuota:
			b.c.checked("I14 quota")
			invariant = "I14"
		}
	}
	return invariant
}

// repeated checks I9 for a copy of a write that had taken effect: the answer is the kept result.
func (b *book) repeated(e history.Event, of *writer, w *history.Write) {
	b.c.checked("I9 repeat")
	kept := of.results[w.Number]
	if kept == nil || kept.Stamp != w.Result.Stamp || w.Number <= of.floor {
		b.fail("I9", e, "a repeat is answered with another write's result, or with one of another process: %v; applied %d, "+
			"floor %d", w, of.applied, of.floor)
	}
}

// left checks X2 and W3 for a write that was left alone.
func (b *book) left(e history.Event, of *writer, w *history.Write) {
	gap, isGap := errors.AsType[*tree.GapError](w.Err)
	_, isWindow := errors.AsType[*tree.WindowError](w.Err)
	right, why := true, ""
	switch {
	case isGap:
		why, right = "gap", gap.Expected == of.applied+1 && w.Number > of.applied+1
	case isWindow:
		why, right = "window", w.Number == of.applied+1
	case errors.Is(w.Err, session.ErrOutcomeUnknown):
		why, right = "unknown", w.Number <= of.applied && w.Number <= max(of.floor, of.acked)
	case errors.Is(w.Err, session.ErrMoved):
		why, right = "moved", of.attachment != w.Attachment
	case errors.Is(w.Err, session.ErrExpired):
		why, right = "expired", of.ended || of.attachment == 0
	}
	b.c.checked("I9 left")
	b.c.checked("I9 left: " + why)
	if !right {
		b.fail("I9", e, "left alone without a reason: %v; attachment %d, ended %v, applied %d, floor %d, acknowledged %d", w,
			of.attachment, of.ended, of.applied, of.floor, of.acked)
	}
}

// session replays an event of a session, and returns the changes of its end (I12, U1 ephemerals end with the session,
// U3 wills).
func (b *book) session(e history.Event, at plain.At, s *session.Change) []tree.Change {
	w := b.writer(uint64(s.Session.ID), e.Index)
	switch s.Kind {
	case session.Opened:
		b.alive[s.Session.ID] = true
		w.attachment, w.instance = s.Session.Attachment, s.Session.Instance
	case session.Moved:
		if s.Session.Instance != w.instance {
			w.floor = w.applied
		}
		w.attachment, w.instance = s.Session.Attachment, s.Session.Instance
	case session.Ended:
		w.ended = true
		delete(b.alive, s.Session.ID)
		// For its ephemerals and its will, a session that an operator ends is lost as by an expiry (Y1 kill).
		expired := s.Certificate.Cause == session.CauseExpired || s.Certificate.Cause == session.CauseKilled
		var will *plain.Will
		if w.will != nil && (expired || w.will.OnClose) {
			will = &plain.Will{Transaction: w.will.Transaction, Principals: w.will.principals}
		}
		if len(b.tree.Owned(uint64(s.Session.ID))) > 0 {
			b.c.checked("I12 end")
		}
		if will != nil {
			b.c.checked("U3 will")
		}
		return b.tree.End(at, uint64(s.Session.ID), expired, will)
	}
	return nil
}

// reap replays the removal of entries that ended on their own (D5 TTLs and containers).
func (b *book) reap(e history.Event, at plain.At, reported []tree.Change) (did []tree.Change) {
	for _, one := range reported {
		changes, due := b.tree.Reap(at, one.Path)
		b.c.checked("D5 reap")
		if !due {
			b.fail("I9", e, "%v %s %s by no write of a client, and not because it was due at %v", one.Stamp, one.Path, one.Kind,
				at.Clock)
		}
		did = append(did, changes...)
	}
	return did
}

// whole checks I12 and I16: the state has exactly the tree that the log makes, with its counts.
func (b *book) whole(e history.Event) {
	paths := b.tree.Paths()
	b.c.checked("I16 whole")
	if len(paths) != len(e.Ledger.Whole) {
		b.fail("I12", e, "the node has %d entries, and the log makes %v", len(e.Ledger.Whole), paths)
		return
	}
	for i, path := range paths {
		n, _ := b.tree.Get(path)
		has := e.Ledger.Whole[i]
		if has.Path != path || bare(has.Stat) != bare(n.Shown()) && path != tree.Root && !reservedPath(path) {
			b.fail("I16", e, "the node has %s\n%+v\nand the log makes %s\n%+v", has.Path, bare(has.Stat), path, n.Shown())
			return
		}
	}
}

func reservedPath(path string) bool { return path == tree.ReservedPath || path == tree.QuotaPath }

// bare returns a stat without the fields that no replay can know: the leaders' wall clocks, and remaining times.
func bare(s tree.Stat) tree.Stat {
	s.CreatedAt, s.ModifiedAt, s.Remaining = time.Time{}, time.Time{}, 0
	return s
}

// differs describes a wrong outcome; "" for a right one.
func differs(want, got tree.Outcome) string {
	switch {
	case (want.Refused == nil) != (got.Refused == nil), want.Else != got.Else:
		return "took the other way than the log says"
	case want.Refused != nil && (want.Refused.Code != got.Refused.Code || want.At != got.At):
		return "was refused for another reason than " + want.Refused.Error()
	case want.Refused != nil:
		return ""
	case len(want.Ops) != len(got.Ops):
		return "has another number of results than operations"
	}
	for i := range want.Ops {
		one := got.Ops[i]
		one.Stat = bare(one.Stat)
		if one != want.Ops[i] {
			return "an operation did something else than the log says"
		}
	}
	return ""
}

// tagOf returns the tag of a transaction, 0 for none.
func tagOf(x tree.Transaction) uint64 {
	if len(x.If) == 0 || x.If[0].Path != tree.Root || x.If[0].Property != tree.Exists || x.If[0].Is != tree.NotEqual {
		return 0
	}
	return x.If[0].Value
}

func (b *book) fail(invariant string, e history.Event, format string, args ...any) {
	b.c.fail(invariant, 0, e.At, format, args...)
}
