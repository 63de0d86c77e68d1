package check

import (
	"slices"
	"sort"
	"time"

	"holdfast/test/sim/history"
)

// ofItsProcess checks that a local session ends with its node's process (L1 local to one node): no later process of the
// node accepts a request with one of its tokens.
func (c locals) ofItsProcess(l *local) {
	if l.stopped == forever {
		return
	}
	c.checked("L1 process")
	for _, v := range l.voices {
		if v.Sent > l.stopped {
			c.fail(
				"I5", l.id, v.At, "the process that had opened it ended at %.4fs, yet its local token was good "+
					"later: %s", l.stopped.Seconds(), history.Line(v),
			)
		}
	}
}

// leaderless checks that neither a change of leader nor a missing leader ends a local session (L1, K-07). Other checks
// require a reason for its end. Here its client must not even lose its promise while faults only concern other nodes.
func (c locals) leaderless(l *local) {
	first, ok := l.opening()
	if !ok {
		return
	}
	proofs := slices.DeleteFunc(slices.Clone(l.promises), func(p history.Event) bool { return p.Until <= p.At })
	for i, e := range c.elections {
		former := ""
		if i > 0 {
			former = c.elections[i-1].Who
		}
		before := func(p history.Event) bool { return p.At < e.At }
		after := func(p history.Event) bool { return p.At > e.At+c.bounds.Interval }
		if e.Who != first.Who && former != first.Who && e.At < l.stopped && slices.ContainsFunc(proofs, before) &&
			slices.ContainsFunc(proofs, after) {
			c.checked("L1 leader change")
		}
	}
	for _, p := range proofs {
		if at := sort.Search(len(c.good), func(i int) bool { return c.good[i] > p.At }); at > 0 &&
			p.At > c.good[at-1]+3*c.bounds.Interval {
			c.checked("L1 no leader")
		}
	}
	for _, x := range l.contexts {
		if c.worldly[x.Who] || x.At >= c.finished || l.over(x) ||
			!c.elsewhere(x.At-l.timeout-c.bounds.Recovery/2, x.At, first.Who, &c.nodes) {
			continue
		}
		c.fail("L1", l.id, x.At, "%s lost its promise while faults concerned other nodes than %s alone", x.Who,
			first.Who)
	}
}

// over reports whether a context had a reason to end: the session's end, its client's silence or request, or a resume
// by another client.
func (l *local) over(x history.Event) bool {
	resumed := func(g history.Event) bool { return g.Kind == history.Resumed && g.Who != x.Who && g.At <= x.At }
	return l.end != nil && l.end.At <= x.At || l.stopped <= x.At || l.fell != 0 && l.fell <= x.At || l.closing(x) ||
		l.global != nil || slices.ContainsFunc(l.grants, resumed)
}

// givenUp checks that a client that holds only local sessions, and opens none, gives none up within a promise (L6
// unknown local sessions). A client that has requested the session's close may go to any node with that.
func (c locals) givenUp(l *local) {
	for _, g := range l.elsewhere {
		c.checked("L6")
		// An open continues a little after its answer: its library may have asked another node already, and the former
		// node keeps a promise until the other node has served the open.
		opens := func(o span) bool {
			return o.who == g.Who && o.from <= g.At && o.till >= l.lost(g)-time.Second
		}
		if c.worldly[g.Who] || l.closing(g) || slices.ContainsFunc(c.openings, opens) {
			continue
		}
		for _, p := range l.promises {
			if p.Who == g.Who && p.Until > g.At {
				c.fail(
					"I3", l.id, g.At, "%s was notified that another node alone can know of it, and released it within "+
						"its promise: %s", g.Who, history.Line(p),
				)
				break
			}
		}
	}
}

// lost is a moment before the client that gave a session up started to search for another node: the time of its last
// promise.
func (l *local) lost(g history.Event) time.Duration {
	var at time.Duration
	for _, p := range l.promises {
		if p.Who == g.Who && p.At <= g.At {
			at = max(at, p.At)
		}
	}
	return at
}

// lifted checks an upgrade (L7 upgrade): a client requested it while the session lived, and it changes neither owner
// nor timeout. It brings back no session that had ended (I5 death is atomic). The leader that decides afterwards keeps
// every promise that rests on the local session (I3 an acknowledged touch counts, L8 one upgrade at a time). The check
// of all opens covers that the upgrade is done once.
func (c locals) lifted(l *local) {
	made := l.global.applied[0]
	c.checked("L7")
	sent := forever
	for _, a := range l.asks {
		sent = min(sent, a.At)
	}
	switch {
	case sent > made.At:
		c.fail("I5", l.id, made.At, "it became global, and no client had requested that: %s", history.Line(made))
	case sent > l.stopped:
		c.fail("I5", l.id, made.At,
			"it became global, and the first upgrade was sent when the process of its node had ended, at %.4fs: %s",
			l.stopped.Seconds(), history.Line(made))
	}
	if l.ended != nil {
		c.fail("I5", l.id, max(made.At, l.ended.At), "it is ended twice, or was brought back: %s; and %s",
			history.Line(*l.ended),
			history.Line(made))
	}
	if made.Node != l.id.Node() || made.Timeout != l.timeout {
		c.fail("I6", l.id, made.At, "the upgrade changed its owner or its timeout, which was %v: %s", l.timeout,
			history.Line(made))
	}
	c.ways(l, sent, made)
	end, ok := l.global.expired()
	if !ok {
		return
	}
	for _, p := range l.promises {
		c.checked("I3 upgraded")
		if p.At >= sent && p.At <= made.At {
			c.checked("L8")
		}
		if end < p.Until {
			c.fail("I3", l.id, end,
				"expired %v before the end of a promise that %s had from its node alone: %s",
				p.Until-end, p.Who, history.Line(p))
		}
	}
}

// ways counts how upgrades came about.
func (c locals) ways(l *local, sent time.Duration, made history.Event) {
	var answers []history.Event
	for _, g := range l.global.grants {
		if g.Kind == history.Upgraded && g.Sent != 0 {
			answers = append(answers, g)
		}
	}
	for i, a := range answers {
		if slices.ContainsFunc(answers[:i], func(b history.Event) bool { return a.Sent <= b.At && b.Sent <= a.At }) {
			c.checked("L7 at once")
		}
	}
	if slices.ContainsFunc(l.unsure, func(e history.Event) bool { return e.Sent <= made.At }) {
		c.checked("L7 unknown")
	}
	if slices.ContainsFunc(c.elections, func(e history.Event) bool { return sent < e.At && e.At < made.At }) {
		c.checked("L7 fail-over")
	}
}

// tokens checks local tokens of a session that has become global (L5 local attachments). They are valid for the
// attachment that the upgrade made, at its owner, until the session has a newer attachment.
func (c locals) tokens(l *local) {
	made := l.global.applied[0]
	newest := l.applied[len(l.applied)-1].Attachment
	for _, t := range l.touches {
		passed := func(a history.Event) bool {
			return a.Who == c.names[made.Node] && a.Attachment > made.Attachment && a.At < t.Sent
		}
		c.checked("I4 local token")
		if i := slices.IndexFunc(l.global.applied, passed); i >= 0 {
			c.fail("I4", l.id, t.At, "%s had applied attachment %d, yet took a touch with a local token: %s",
				c.names[made.Node], l.global.applied[i].Attachment, history.Line(t))
		}
	}
	c.closedByToken(l, made, newest)
	for _, g := range l.gone {
		c.checked("E5 local token")
		if e := l.global.end; e == nil || g.At < e.At {
			c.fail("E5", l.id, g.At, "%s was notified, with a local token, of an end that no node had applied", g.Who)
		}
	}
	for _, m := range l.moved {
		since := func(a history.Event) bool { return a.Attachment > made.Attachment && a.At <= m.At }
		if m.Attachment >= newest && m.At <= l.stopped && !slices.ContainsFunc(l.global.applied, since) {
			c.fail("I4", l.id, m.At, "%s was notified of a move that no node had applied", m.Who)
		}
	}
}

// closedByToken checks that a close with a local token ended the attachment that the upgrade made, and that only the
// newest token did.
func (c locals) closedByToken(l *local, made history.Event, newest uint64) {
	for _, x := range l.closes {
		e := l.global.end
		switch {
		case e == nil || e.At > x.At || e.Cause.String() != "closed":
			c.fail("I4", l.id, x.At, "a close was answered as done, and no node had applied one: %s", history.Line(x))
		case x.Node != 0 && (e.Attachment != made.Attachment || x.Attachment != newest):
			c.fail("I4", l.id, x.At, "a close with a local token ended the session with attachment %d: %s",
				e.Attachment, history.Line(x))
		}
	}
}

// join adds to the global life the facts from before the upgrade: touches, which are handed over where the entry is
// applied and count once the node's answer shows that it has applied the entry (L8, T5 a touch moves the deadline);
// requests to close; and the silence of a client that does not know about the upgrade.
func (l *local) join() {
	g := l.global
	made := g.applied[0]
	for _, a := range g.applied {
		if a.Attachment != made.Attachment || a.Node != l.id.Node() || a.Who != l.applied[0].Who {
			continue
		}
		for _, v := range l.voices {
			v.Attachment, v.At = made.Attachment, max(v.At, a.At+a.ApplyDelay)
			g.voices = append(g.voices, v)
		}
		break
	}
	for _, a := range l.attempts {
		a.Attachment = 0
		g.attempts = append(g.attempts, a)
	}
	g.sent = append(g.sent, l.sent...)
	if len(g.grants) == 0 {
		g.silent = l.silent
	}
}
