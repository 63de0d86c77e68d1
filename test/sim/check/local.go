package check

import (
	"cmp"
	"slices"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// local is everything known about a local session (L1 local to one node). Its life is the life at its only node, with
// the node's attachments. After an upgrade the log's session is another life with the same id.
type local struct {
	*life
	// asks are the upgrades that were sent, unsure the upgrades whose outcome a client did not learn.
	asks, unsure []history.Event
	// elsewhere are the clients that gave the session up because their node could not know it (L6 unknown local
	// sessions).
	elsewhere []history.Event
	// global is nil until an upgrade was applied.
	global *life
	// ended is the end by its node, nil if there was none. life.end is the same, or the end of the node's process.
	ended *history.Event
	// stopped is when its process ended, forever if the process did not end.
	stopped time.Duration
}

// receive records what a client knows.
func (l *local) receive(e history.Event) {
	switch e.Kind { //nolint:exhaustive // life files the other kinds
	case history.UpgradeSent:
		l.asks = append(l.asks, e)
	case history.LearntElsewhere:
		l.elsewhere = append(l.elsewhere, e)
	case history.Refused:
		if e.Op == history.Upgrade && e.Unknown {
			l.unsure = append(l.unsure, e)
		}
		l.life.receive(e)
	default:
		l.life.receive(e)
	}
}

// apply records what its node did, as the corresponding event of the log.
func (l *local) apply(e history.Event) {
	switch e.Kind { //nolint:exhaustive // note files the other kinds
	case history.LocalOpened:
		e.Kind = history.AppliedOpen
	case history.LocalMoved:
		e.Kind = history.AppliedMove
	default:
		e.Kind = history.AppliedEnd
	}
	l.life.apply(e)
	l.ended = l.end
}

// locals judges local sessions.
type locals struct{ judge }

// check checks the same invariants for local sessions. One node alone decides about each of them, on a clock that does
// not stop in a simulation. So nearly all checks apply during faults too, to the moment, and whatever leaders do.
func (c locals) check() {
	all := c.sortedLocals()
	c.ids(all)
	for _, l := range all {
		c.placed(l)
		c.scope = " local"
		likeGlobal(c.judge, l)
		c.scope = ""
		c.early(l)
		c.late(l)
		freezes(c).checkLocal(l)
		c.ofItsProcess(l)
		c.leaderless(l)
		c.givenUp(l)
		if l.global != nil {
			c.lifted(l)
			c.tokens(l)
			l.join()
		}
	}
}

// likeGlobal runs the checks that local sessions share with global sessions.
func likeGlobal(j judge, l *local) {
	promises{j}.check(l.life)
	liveness{j}.served(l.life)
	fence{j}.outrun(l.life)
	fence{j}.granted(l.life)
	fence{j}.takers(l.life)
	fence{j}.takenOver(l.life)
	if l.global == nil {
		fence{j}.closedBy(l.life)
		fence{j}.reported(l.life)
		order{j}.check(l.life)
	}
}

// ids checks I7: the id of a local session is opened once, by its own node, before the log knew it. The ids that one
// node issues rise.
func (c locals) ids(all []*local) {
	var opened []history.Event
	for _, l := range all {
		first, ok := l.opening()
		if !ok {
			continue // granted reports the violation if a client was granted the id
		}
		opened = append(opened, first)
		c.openedOnce(l, first)
	}
	c.risingLocally(opened)
}

// openedOnce checks that its own node opened a session, and that no other process did.
func (c locals) openedOnce(l *local, first history.Event) {
	c.checked("I7 local")
	if first.Node != l.id.Node() {
		c.fail("I7", l.id, first.At, "opened locally by node %d", first.Node)
	}
	for _, a := range l.applied {
		if a.Kind == history.AppliedOpen && (a.Who != first.Who || c.startedWithin(a.Who, first.At+1, a.At)) {
			c.fail("I7", l.id, a.At, "opened locally by two processes: %s; and %s", history.Line(first),
				history.Line(a))
		}
	}
	if g := c.lives[l.id]; g != nil && len(g.applied) > 0 && g.applied[0].At < first.At {
		c.fail("I7", l.id, first.At, "opened locally, and the log had its id: %s", history.Line(g.applied[0]))
	}
}

// risingLocally checks that the ids that each node gave out rise.
func (c locals) risingLocally(opened []history.Event) {
	slices.SortFunc(opened, func(a, b history.Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID))
	})
	newest := make(map[session.Node]history.Event)
	for _, e := range opened {
		if before, ok := newest[e.Node]; ok {
			c.checked("I7 local order")
			if e.ID <= before.ID {
				c.fail("I7", e.ID, e.At,
					"opened locally after a session of the same node with the same or a higher id: %s",
					history.Line(before))
			}
		}
		newest[e.Node] = e
	}
}

// opening returns the opening of the session by its node.
func (l *local) opening() (history.Event, bool) {
	if len(l.applied) == 0 || l.applied[0].Kind != history.AppliedOpen {
		return history.Event{}, false
	}
	return l.applied[0], true
}

// placed finds out when the process that opened a session ended, and whether the session became global.
func (c locals) placed(l *local) {
	if g := c.lives[l.id]; g != nil && len(g.applied) > 0 {
		l.global = g
	}
	first, ok := l.opening()
	if !ok {
		return
	}
	for _, all := range [][]time.Duration{c.stopped[first.Who], c.started[first.Who]} {
		for _, at := range all {
			if at > first.At {
				l.stopped = min(l.stopped, at)
			}
		}
	}
	if l.end == nil && l.global == nil && l.stopped < c.finished {
		l.end = &history.Event{
			At: l.stopped, Kind: history.AppliedEnd, Who: first.Who, Node: first.Node, ID: l.id, Local: true,
			Attachment: l.applied[len(l.applied)-1].Attachment,
			Text:       "with the process of its node",
		}
	}
}

// early checks I1: a local session does not expire before a full timeout after each accepted touch (L3 local expiry).
func (c locals) early(l *local) {
	end, ok := l.expired()
	if !ok {
		return
	}
	for _, v := range l.voices {
		if v.Sent == 0 {
			continue
		}
		c.checked("I1 local")
		if end < v.Sent+l.timeout {
			c.fail("I1", l.id, end, "its node ended it %v after a touch that was taken, below its timeout %v: %s",
				end-v.Sent, l.timeout, history.Line(v))
		}
	}
	if age := l.end.Certificate.LastTouchAge; age < l.timeout {
		c.fail("I1", l.id, end, "its certificate says it was touched %v before, which is below its timeout %v", age,
			l.timeout)
	}
}

// travel bounds the time of a request on its way when nothing is wrong.
const travel = 100 * time.Millisecond

// leaving bounds the time that a process needs to end. It waits up to 5 s for unanswered entries, and serves no client
// meanwhile.
const leaving = 7 * time.Second

// late checks I2: a local session ends within an expiry interval and a quarter of a heartbeat interval of its due time
// (L3). The stalls of its node move the due time. A session does not end while the outcome of its upgrade is unknown
// (L8 one upgrade at a time).
func (c locals) late(l *local) {
	wait := l.timeout + c.bounds.ExpiryInterval + c.bounds.Interval/4
	if end, ok := l.expired(); ok && len(l.asks) == 0 {
		c.checked("I2 local")
		age := l.end.Certificate.LastTouchAge
		credit := c.credit(l.id.Node(), end-age, end)
		if credit > 0 {
			c.checked("I2 local stalled")
		}
		if end-c.warm(l.end.Who, end-age, end) > wait+credit+time.Millisecond {
			c.fail("I2", l.id, end, "its node ended it %v after its last touch; its timeout is %v", age,
				l.timeout)
		}
	}
	first, ok := l.opening()
	if !ok || l.global != nil {
		return
	}
	silent := l.silent
	if len(l.grants) == 0 { // the client continues without it
		silent = first.At
	}
	if silent == 0 || l.end != nil && l.end.At < silent {
		return
	}
	voice := c.lastLocalVoice(l, silent) + travel
	by := wait + max(c.warm(first.Who, voice, c.finished)+c.credit(first.Node, voice, c.finished),
		c.spared(first.Node, voice, c.finished))
	if by > c.finished {
		return
	}
	c.checked("I2 local silent")
	switch {
	case l.end == nil:
		c.fail("I2", l.id, c.finished, "silent since %.4fs, its node should have ended it by %.4fs, and never did",
			silent.Seconds(), by.Seconds())
	case l.ended == nil && l.end.At <= by+leaving: // the process was ending, and the session with it
	case l.end.At > by:
		c.fail("I2", l.id, l.end.At, "silent since %.4fs, its node should have ended it by %.4fs", silent.Seconds(),
			by.Seconds())
	}
}

// lastLocalVoice returns the moment from which its node can receive nothing for a session that went silent.
func (c locals) lastLocalVoice(l *local, silent time.Duration) time.Duration {
	one := *l.life
	one.silent = silent
	voice, known := c.lastVoice(&one)
	if !known || len(l.asks) > 0 || len(l.grants) == 0 {
		voice = max(voice, silent, c.healed) + c.bounds.Recovery
	}
	return voice
}
