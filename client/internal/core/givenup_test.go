package core

import (
	"context"
	"fmt"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// While no node is in reach, callers come, wait for a while and give up, for as long as that lasts. Nothing is kept of
// those that are gone.
func TestNothingIsKeptOfCallersThatHaveGivenUp(t *testing.T) {
	l := newTestCore()
	h := l.hold(new(Call), session.Token{ID: 1, Attachment: 9})
	h.joining = nil
	at := time.Unix(1, 0)
	turn := func(in ...Input) { l.Turn(Moment{Now: at}, in...) }
	patient := []*TreeCall{{}, {}}
	turn(Read{Call: patient[0]}, Read{Call: patient[1], Session: h},
		AddWatch{&Watch{Spec: tree.WatchSpec{Path: "/patient", Kind: tree.WatchRecursive}}})
	for i := range 1000 {
		alone, ofSession := &TreeCall{}, &TreeCall{}
		w := &Watch{Spec: tree.WatchSpec{Path: fmt.Sprint("/", i), Kind: tree.WatchRecursive}}
		turn(Read{Call: alone}, Read{Call: ofSession, Session: h}, AddWatch{w})
		turn(GiveUpTree{alone, context.Canceled}, GiveUpTree{ofSession, context.Canceled},
			GiveUpWatch{w, context.Canceled})
	}
	const few = 8
	f := l.forest
	if n, m, q := len(f.reads), len(h.branch.reads), len(f.watches.queue); n > few || m > few || q > few {
		t.Errorf("%d reads, %d reads of the session and %d watches are kept", n, m, q)
	}
	if f.reads[0].call != patient[0] || h.branch.reads[0].call != patient[1] ||
		f.watches.queue[0].spec.Path != "/patient" {
		t.Error("a caller that waits on was forgotten")
	}
}

// Callers that give up all at once cost no search each, and those between them keep their order.
func TestThoseWhoWaitOnKeepTheirOrder(t *testing.T) {
	l := newTestCore()
	var calls []*TreeCall
	for range 100 {
		calls = append(calls, &TreeCall{})
		l.Turn(Moment{Now: time.Unix(1, 0)}, Read{Call: calls[len(calls)-1]})
	}
	for i, call := range calls {
		if i%10 != 0 {
			l.Turn(Moment{Now: time.Unix(1, 0)}, GiveUpTree{call, context.Canceled})
		}
	}
	var left []*TreeCall
	for _, r := range l.forest.reads {
		if r.Wanted() {
			left = append(left, r.call)
		}
	}
	if len(left) != 10 || len(l.forest.reads) > 20 {
		t.Fatalf("%d reads wait on, of %d that are kept; want 10 of at most 20", len(left), len(l.forest.reads))
	}
	for i, call := range left {
		if call != calls[10*i] {
			t.Errorf("read %d is another one than before", i)
		}
	}
}
