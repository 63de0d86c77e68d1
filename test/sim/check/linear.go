package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// state is a session's state for a client: absent, open with the newest attachment, or ended with the last attachment.
type state struct {
	phase      phase
	attachment uint64
	cause      session.Cause
}

type phase uint8

const (
	isAbsent phase = iota
	isOpen
	isEnded
)

// deed is an operation on one session, or a client's answer about it.
type deed struct {
	kind       deedKind
	attachment uint64
	// former is the attachment that a move supersedes: the newest of the older attachments that are known.
	former uint64
	// cause is the cause of an end; 0 for an answer about an end without a cause.
	cause session.Cause
}

type deedKind uint8

const (
	// These change the session.
	doOpen deedKind = iota
	doMove
	doEnd
	// These are answers about the session: ended by this close; attached again since; ended.
	reportedClosed
	reportedMoved
	reportedGone
)

// String returns the deed in words.
func (d deed) String() string {
	names := [...]string{"open", "move to", "end", "reported closed", "reported moved from", "reported gone"}
	text := fmt.Sprintf("%s %d", names[d.kind], d.attachment)
	if d.cause != 0 {
		text += " " + d.cause.String()
	}
	return text
}

// step is the model: whether a deed is possible in a state, and the next state. Attachments rise. Every move must find
// its place in the order, so a move must not overtake an older move. The model says so explicitly: this spares the
// search all orders in which a move never finds its place, whose number doubles with each move.
func step(s state, d deed) (bool, state) {
	switch d.kind {
	case doOpen:
		return s.phase == isAbsent, state{isOpen, d.attachment, 0}
	case doMove:
		return s.phase == isOpen && d.former == s.attachment, state{isOpen, d.attachment, 0}
	case doEnd:
		return s.phase == isOpen && d.attachment == s.attachment, state{isEnded, s.attachment, d.cause}
	case reportedClosed:
		return s.phase == isEnded && s.cause == session.CauseClosed, s
	case reportedMoved:
		return s.phase != isAbsent && s.attachment > d.attachment, s
	case reportedGone:
		return s.phase == isEnded && (d.cause == 0 || s.cause == d.cause), s
	}
	return false, s
}

// Limits of the search for an order. Virtual time stops during the search, so the number of steps bounds it as well as
// the time.
const (
	maxSteps = 4_000_000
	maxTime  = 5 * time.Second
)

// order judges linearizability.
type order struct{ judge }

// check checks that one order of all operations on a session explains each answer, with the effect of each open, resume
// and close between its call and its answer. The log shows which calls without an answer took effect. An applied change
// without a matching answer is an operation: its call may be as old as the history, and it had taken effect when the
// first node applied it. A call without answer and effect constrains nothing. An expiry is an operation without a
// client's call.
func (c order) check(l *life) {
	ops := l.operations()
	if len(ops) == 0 {
		return
	}
	c.checked("linear")
	for _, o := range ops {
		if o.Return < o.Call {
			c.fail("linear", l.id, time.Duration(o.Return), "took effect before it was requested at %.4fs: %s",
				time.Duration(o.Call).Seconds(), o.Input)
			return
		}
	}
	steps := 0
	model := porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, d, _ any) (bool, any) {
			if steps++; steps > maxSteps {
				return false, s
			}
			return step(s.(state), d.(deed)) //nolint:errcheck // the model's own types
		},
	}
	switch r := porcupine.CheckOperationsTimeout(model, ops, maxTime); {
	case steps > maxSteps || r == porcupine.Unknown:
		c.fail("linear", l.id, l.lastAt(),
			"the search for an order of its %d operations did not end within %d steps",
			len(ops), steps)
	case r == porcupine.Illegal:
		c.fail("linear", l.id, l.lastAt(), "no order of the operations explains the answers:%s", list(ops))
	}
}

func list(ops []porcupine.Operation) string {
	var text strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&text, "\n  %11.4fs to %.4fs %s", time.Duration(o.Call).Seconds(),
			time.Duration(o.Return).Seconds(), o.Input)
	}
	return text.String()
}

// lastAt is the time of the session's last event.
func (l *life) lastAt() time.Duration {
	var at time.Duration
	for _, all := range [][]history.Event{l.grants, l.closes, l.moved, l.gone, l.ends} {
		for _, e := range all {
			at = max(at, e.At)
		}
	}
	return at
}

// operations returns the operations on a session, and clients' answers about it.
func (l *life) operations() []porcupine.Operation {
	var ops []porcupine.Operation
	add := func(d deed, call, answer time.Duration) {
		ops = append(ops, porcupine.Operation{Input: d, Call: int64(call), Return: int64(answer)})
	}
	granted := make(map[uint64]bool)
	for _, g := range l.grants {
		if granted[g.Attachment] {
			continue // the repeat of one attempt
		}
		granted[g.Attachment] = true
		kind, answer := doMove, g.At
		made, ok := l.made(g.Attachment)
		// A client's library may move the session before the client learns that its open is done.
		if ok && made.Kind == history.AppliedOpen || !ok && g.Kind == history.Opened {
			kind = doOpen
		}
		if ok {
			answer = min(answer, made.At)
		}
		add(deed{kind: kind, attachment: g.Attachment}, g.Sent, answer)
	}
	for _, a := range l.applied {
		if granted[a.Attachment] {
			continue
		}
		granted[a.Attachment] = true
		kind := doMove
		if a.Kind == history.AppliedOpen {
			kind = doOpen
		}
		add(deed{kind: kind, attachment: a.Attachment}, 0, a.At)
	}
	rank(ops)
	l.endings(add)
	return ops
}

// rank sets for each move the attachment that it supersedes.
func rank(ops []porcupine.Operation) {
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(attachment(a), attachment(b)) })
	var former uint64
	for i := range ops {
		d := ops[i].Input.(deed) //nolint:errcheck // operations made it
		d.former, former = former, d.attachment
		ops[i].Input = d
	}
}

func attachment(o porcupine.Operation) uint64 {
	return o.Input.(deed).attachment //nolint:errcheck // operations made it
}

// callOf returns when an end was requested. An expiry has no request. A close has a request among the attempts, and a
// kill is an operator's.
func (l *life) callOf(end *history.Event) (call time.Duration) {
	switch end.Cause {
	case session.CauseClosed:
		call = end.At
		for _, a := range l.attempts {
			if a.Attachment <= end.Attachment {
				call = min(call, a.Sent)
			}
		}
	case session.CauseKilled:
		if k, ok := l.bidding(end); ok {
			call = k.Sent
		}
	case session.CauseExpired:
	}
	return call
}

// endings adds the end, and the answers about ends and moves. Once a session has moved or ended, this stays true. So an
// answer that fits at any time since the request also fits at the time of the answer, and the search need not find a
// place for it.
func (l *life) endings(add func(d deed, call, answer time.Duration)) {
	if e := l.end; e != nil {
		add(deed{kind: doEnd, attachment: e.Attachment, cause: e.Cause}, l.callOf(e), e.At)
	}
	for _, x := range l.closes {
		add(deed{kind: reportedClosed, attachment: x.Attachment, cause: session.CauseClosed}, x.At, x.At)
	}
	for _, m := range l.moved {
		add(deed{kind: reportedMoved, attachment: m.Attachment}, m.At, m.At)
	}
	for _, g := range l.gone {
		d := deed{kind: reportedGone, attachment: g.Attachment}
		if g.Certificate != nil {
			d.cause = g.Certificate.Cause
		}
		add(d, g.At, g.At)
	}
}
