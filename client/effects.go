package client

import (
	"context"
	"time"

	"holdfast/client/internal/core"
	holdfastv1 "holdfast/proto/holdfast/v1"
)

// turn takes a turn of the core, about what has happened, and carries out its effects. It returns the moment when the
// next turn is due; zero for never.
func (l *loop) turn(ctx context.Context, happened ...core.Input) (wakeAt time.Time) {
	now, suspensions := l.clock.look()
	known := l.shared.seen.now()
	at := core.Moment{
		Now: now, Suspensions: suspensions, Cluster: known.cluster, Seen: known.index, Stamp: known.stamp,
	}
	e := l.core.Turn(at, happened...)
	wakeAt = e.WakeAt
	if missed := l.bring(ctx, e, suspensions); len(missed) > 0 {
		wakeAt = l.turn(ctx, core.Missed{Sessions: missed})
	}
	return wakeAt
}

// bring carries out the effects of a turn, which was taken under a number of suspensions. It returns what sessions
// returns.
func (l *loop) bring(ctx context.Context, e *core.Effects, suspensions uint64) (missed []*core.Session) {
	l.saw(e) // first: an application that hears of the turn may read at once
	missed = l.sessions(e, suspensions)
	l.tellTree(e)
	l.connections(ctx, e)
	l.tellClient(e)
	return missed
}

// saw notes the index that nodes have told, for all who share it. While the core is still at a former cluster, its index
// is not noted.
func (l *loop) saw(e *core.Effects) {
	now := told{cluster: e.Cluster, index: e.Seen, stamp: e.Stamp}
	if now.cluster != l.cluster || now.cluster == l.shared.seen.now().cluster {
		l.cluster = now.cluster
		l.shared.seen.note(now)
	}
}

// sessions updates the application's sessions. It returns the sessions whose timer ended the context before the promise
// could renew it: the core does not know of this lapse yet, and must tell it as an event.
func (l *loop) sessions(e *core.Effects, suspensions uint64) (missed []*core.Session) {
	for _, s := range e.Lapsed {
		of(s).lapse()
	}
	for _, g := range e.Granted {
		of(g.Session).grant(g)
	}
	for _, p := range e.Promised {
		if s, ok := p.Handle.(*Session); ok && s.promise(p.Until, suspensions) && !p.Regained {
			missed = append(missed, p.Session)
		}
	}
	for i := range e.Events {
		of(e.Events[i].Session).happened(&e.Events[i])
	}
	for _, s := range e.Ended {
		of(s.Session).end(s.Err)
	}
	return missed
}

// of returns the application's session for a session of the core.
func of(s *core.Session) *Session {
	mine, _ := s.Handle.(*Session)
	return mine
}

// connections dials, sends and hangs up. The messages to one connection are handed to its stream together, because the
// stream sends as one what it gets as one.
func (l *loop) connections(ctx context.Context, e *core.Effects) {
	for _, a := range e.Actions {
		if a.Conn != l.sending.to || a.Do != core.Send {
			l.send()
		}
		switch a.Do {
		case core.Dial:
			l.dial(ctx, a.Conn)
		case core.Send:
			l.sending.to = a.Conn
			l.sending.messages = append(l.sending.messages, a.Message)
		case core.HangUp:
			l.streams[a.Conn].Close()
			delete(l.streams, a.Conn)
		case core.AskMembers:
			l.streams[a.Conn].AskMembers(ctx, &l.running, l.cfg.ConnectTimeout, &listener{l, a.Conn})
		}
	}
	l.send()
	for _, name := range e.Lookups {
		l.resolve(ctx, name)
	}
}

// sending is what one connection is to send.
type sending struct {
	to       *core.Conn
	messages []*holdfastv1.ClientMessage
}

// send hands a stream what it is to send.
func (l *loop) send() {
	s := &l.sending
	if len(s.messages) == 0 {
		return
	}
	l.streams[s.to].Send(s.messages...)
	clear(s.messages)
	s.to, s.messages = nil, s.messages[:0]
}

// tellClient tells the pool, the callers that wait, the log, and the application. A logger and OnNode come last because
// they may block.
func (l *loop) tellClient(e *core.Effects) {
	l.shared.occupancy.note(e.Load)
	if e.Adopted != "" && l.shared.settled != nil {
		l.shared.settled(e.Adopted)
	}
	if e.Learnt != nil && l.shared.learnt != nil {
		l.shared.learnt(e.Learnt)
	}
	for _, a := range e.Answers {
		w, _ := a.Call.Handle.(*waiter)
		o := outcome{err: a.Err}
		if a.Session != nil {
			o.s = of(a.Session)
		}
		w.answer <- o
	}
	for _, line := range e.Logs {
		l.cfg.Logger.Log(line.Level, line.Message, line.Args...)
	}
	if e.Moved && l.cfg.OnNode != nil {
		l.cfg.OnNode(e.Position.Address, e.Position.State)
	}
}

// wake is a timer that can be set to never.
type wake struct{ *time.Timer }

func newWake() wake { return wake{time.NewTimer(0)} }

func (w wake) set(at time.Time) {
	if at.IsZero() {
		w.Stop()
	} else {
		w.Reset(max(time.Until(at), 0))
	}
}
