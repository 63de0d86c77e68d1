package check

import (
	"cmp"
	"slices"
	"time"

	"holdfast/test/model/plain"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// scribes checks I9 and I13 for clients with one request at a time, against the replayed log.
func (b *book) scribes() {
	for _, e := range b.c.entries {
		switch e.Kind { //nolint:exhaustive // the others have no stamp
		case history.TreeRead:
			b.shown(e)
		case history.Wrote:
			w, ok := b.at[e.Entry.Stamp]
			b.c.checked("I9 reported")
			if !ok || w.Session != uint64(e.ID) || refusal(w.Result.Outcome) != e.Entry.Refused {
				b.c.misled(e, "I9", "the log has at this stamp %v", w)
			}
		}
	}
}

func refusal(o tree.Outcome) tree.Code {
	if o.Refused == nil {
		return 0
	}
	return o.Refused.Code
}

// calls checks each transaction of a client with many requests in flight, in the order of their calls.
func (b *book) calls() {
	all := slices.Clone(b.c.called)
	slices.SortStableFunc(all, func(x, y history.Event) int { return cmp.Compare(x.Sent, y.Sent) })
	reported, newest := b.reported(), make(map[uint64]history.Event)
	for _, e := range all {
		b.call(e)
		if did := b.numbered[e.Call.Tag]; len(did) > 0 && e.Call.Fate != history.Waiting {
			b.order(e, did[0], newest[e.Call.Handle], reported.before(e.Sent))
			newest[e.Call.Handle] = e
		}
	}
}

// call checks I9: a transaction took effect once, with the answered result, if it was answered, and never if the answer
// was never. A client that waits, and keeps the session, never gets an unknown outcome. It checks I18: a transaction
// that is not given up has an answer in the end.
func (b *book) call(e history.Event) {
	did := b.numbered[e.Call.Tag]
	b.c.checked("I9 " + e.Call.Fate.String())
	if e.Call.Patient {
		b.c.checked("I18")
	}
	switch {
	case e.Call.Fate == history.Waiting:
		b.c.misled(e, "I18", "the caller waited on, and it has no answer long after the last fault; the log has %v", did)
	case e.Call.Kept:
		b.c.misled(e, "I9", "the caller waited on, its session lives, and its outcome is unknown; the log has %v", did)
	case e.Call.Fate == history.NoEffect && len(did) > 0:
		b.c.misled(e, "I9", "the log has %v", did[0])
	case e.Call.Fate == history.ResultGone && len(did) == 0:
		b.c.misled(e, "I9", "the log has no such write")
	case e.Call.Fate == history.Answered:
		b.answered(e, did)
	}
}

// order checks I10 for a call that took effect: the writes of a handle take effect in the order of their calls. It
// checks I9: a write takes effect after everything that any client knew before its call.
func (b *book) order(e history.Event, w history.Write, before history.Event, least tree.Stamp) {
	b.c.checked("I10 called")
	b.c.checked("I9 after")
	if w.Session != uint64(e.ID) {
		b.c.misled(e, "I9", "the log has it for another session: %v", w)
	}
	if before.Call != nil && before.Sent < e.Sent && b.stampOf(before) > w.At {
		b.c.misled(e, "I10", "it took effect at %v, before what was called earlier: %s", w.At, history.Line(before))
	}
	if w.At <= least {
		b.c.misled(e, "I9", "it took effect at %v, and %v had been reported before it was called", w.At, least)
	}
}

// stampOf returns the stamp of a call that took effect.
func (b *book) stampOf(e history.Event) tree.Stamp { return b.numbered[e.Call.Tag][0].At }

func (b *book) answered(e history.Event, did []history.Write) {
	switch {
	case len(did) == 0 || did[0].At != e.Call.Result.Stamp:
		b.c.misled(e, "I9", "the log has %v", did)
	case differs(bareOutcome(did[0].Result.Outcome), e.Call.Result.Outcome) != "":
		b.c.misled(e, "I9", "the state had\n%+v\nand the client got\n%+v", did[0].Result.Outcome,
			e.Call.Result.Outcome)
	}
}

func bareOutcome(o tree.Outcome) tree.Outcome {
	o.Ops = slices.Clone(o.Ops)
	for i := range o.Ops {
		o.Ops[i].Stat = bare(o.Ops[i].Stat)
	}
	return o
}

// heights are the stamps that clients received, each higher than those before.
type heights []height

type height struct {
	at    time.Duration
	stamp tree.Stamp
}

// before returns the highest stamp that was received before a moment.
func (h heights) before(at time.Duration) tree.Stamp {
	n, _ := slices.BinarySearchFunc(h, at, func(one height, at time.Duration) int { return cmp.Compare(one.at, at) })
	if n == 0 {
		return 0
	}
	return h[n-1].stamp
}

func (h heights) add(at time.Duration, stamp tree.Stamp) heights {
	if n := len(h); n > 0 && h[n-1].stamp >= stamp {
		return h
	}
	return append(h, height{at, stamp})
}

// answers returns clients' answers, in the order of time.
func (b *book) answers() []history.Event {
	all := slices.Concat(b.c.called, b.c.found, b.c.entries)
	slices.SortStableFunc(all, func(x, y history.Event) int { return cmp.Compare(x.At, y.At) })
	return slices.DeleteFunc(all, func(e history.Event) bool { return toldStamp(e) == 0 })
}

// toldStamp returns the stamp of an answer, 0 if there was none.
func toldStamp(e history.Event) tree.Stamp {
	if e.Call != nil {
		return e.Call.Result.Stamp
	}
	return e.Entry.Stamp
}

// reported returns the answers to all clients.
func (b *book) reported() (all heights) {
	for _, e := range b.answers() {
		all = all.add(e.At, toldStamp(e))
	}
	return all
}

// finds checks I13 for reads of clients with many requests in flight. Each shows the tree of its stamp, which is not
// below the client's highest stamp before, nor, for a linearizable read, below any client's. It follows the writes that
// its session called before (G3 order in a session).
func (b *book) finds() {
	reported, each := b.reported(), make(map[string]heights)
	for _, e := range b.answers() {
		each[e.Who] = each[e.Who].add(e.At, toldStamp(e))
	}
	calls := make(map[uint64][]history.Event)
	for _, e := range b.c.called {
		if e.Call.Fate == history.Answered {
			calls[e.Call.Handle] = append(calls[e.Call.Handle], e)
		}
	}
	for _, e := range b.c.found {
		least := each[e.Who].before(e.Sent)
		if e.Entry.Denied {
			b.denied(e, least.Index())
		}
		if e.Entry.Stamp == 0 {
			continue // a read that found no entry, or was refused, has no stamp
		}
		b.shown(e)
		b.c.checked("I13 seen")
		if e.Entry.Stamp.Index() < least.Index() {
			b.c.misled(e, "I13", "its client had got %v before it sent the read", least)
		}
		if e.Entry.Linearizable {
			entries{b.c.judge}.linearizable(reported.before(e.Sent), e)
		}
		if e.Entry.Handle != 0 {
			b.among(e, calls[e.Entry.Handle])
		}
	}
}

// denied checks I14 for a refused read: since the client's highest stamp before, the list in force denied the read to
// the client at some time.
func (b *book) denied(e history.Event, least uint64) {
	b.c.checked("I14 denied")
	for index := least; index <= b.newest; index++ {
		if !plain.Granted(b.past.list(e.Entry.Path, end(index)), tree.Read, e.Entry.As) {
			return
		}
	}
	b.c.misled(e, "I14", "the lists in force never kept it from %v", e.Entry.As)
}

// among checks the half of G3 that a client keeps whatever happens: a read shows the writes that were called before it.
// A read that a node refuses for now is sent again, behind writes that were called later.
func (b *book) among(e history.Event, calls []history.Event) {
	for _, w := range calls {
		b.c.checked("G3")
		if w.Sent < e.Sent && w.Call.Result.Stamp > e.Entry.Stamp {
			b.c.misled(e, "G3", "it does not show what was called before: %s", history.Line(w))
		}
	}
}

// shown checks I12 and I13: a read shows exactly the tree of its stamp.
func (b *book) shown(e history.Event) {
	b.c.checked("I13 exact")
	read, stamp := e.Entry, e.Entry.Stamp
	switch {
	case read.Owner != 0:
		if want := b.past.ephemerals(uint64(read.Owner), stamp); !slices.Equal(read.Names, want) {
			b.c.misled(e, "I12", "of the session's ephemerals there were then %v", want)
		}
		return
	case read.Lists:
		if want := b.past.children(read.Path, stamp); !slices.Equal(read.Names, want) {
			b.c.misled(e, "I13", "there were then %v", want)
		}
	}
	n := b.past.at(read.Path, stamp)
	if n != nil && len(read.As) > 0 {
		b.c.checked("I14 read")
	}
	switch {
	case n != nil && !plain.Granted(b.past.list(read.Path, stamp), tree.Read, read.As):
		b.c.misled(e, "I14", "the list in force was then %v", b.past.list(read.Path, stamp))
	case (n != nil) != read.Exists:
		b.c.misled(e, "I13", "there was then %+v", n)
	case n == nil:
	case bare(read.Stat) != bare(n.Shown()) || !read.Lists && read.Data != string(n.Data):
		b.c.misled(e, "I13", "there was then %q\n%+v", n.Data, n.Shown())
	}
}
