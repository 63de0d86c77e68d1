package client

import (
	"context"
	"time"

	"holdfast/client/internal/core"
	"holdfast/client/internal/core/conn"
	sessions "holdfast/client/internal/core/session"
	holdfastv1 "holdfast/proto/holdfast/v1"
)

// turn passes inputs to the core and carries out the effects. It returns when the next turn is due; zero for never.
func (l *loop) turn(ctx context.Context, happened ...core.Input) (wakeAt time.Time) {
	now, suspensions := l.clock.now()
	known := l.shared.seen.now()
	at := core.Moment{
		Now: now, Suspensions: suspensions,
		Known: conn.Known{Cluster: known.cluster, Seen: known.index, Stamp: known.stamp},
	}
	e := l.core.Turn(at, happened...)
	wakeAt = e.WakeAt
	if missed := l.bring(ctx, e, suspensions); len(missed) > 0 {
		wakeAt = l.turn(ctx, core.Missed{Sessions: missed})
	}
	return wakeAt
}

// bring carries out the effects of a turn, which ran after the given number of suspensions. It returns the result of
// sessions.
func (l *loop) bring(ctx context.Context, e *core.Effects, suspensions uint64) (missed []*sessions.Session) {
	l.saw(e) // first: an application that learns of the turn may read at once
	missed = l.sessions(e, suspensions)
	l.notifyTree(e)
	l.connections(ctx, e)
	l.notifyClient(e)
	return missed
}

// saw records the newest index that nodes have reported, for all clients that share it. An index of a former cluster is
// ignored.
func (l *loop) saw(e *core.Effects) {
	known := e.Conns.Known
	now := nodeReport{cluster: known.Cluster, index: known.Seen, stamp: known.Stamp}
	if now.cluster != l.cluster || now.cluster == l.shared.seen.now().cluster {
		l.cluster = now.cluster
		l.shared.seen.note(now)
	}
}

// sessions updates the application's sessions. It returns the sessions whose timer ended the context before the promise
// could renew it: the core does not know of this lapse yet, and must report it as an event.
func (l *loop) sessions(e *core.Effects, suspensions uint64) (missed []*sessions.Session) {
	for _, s := range e.Sessions.Lapsed {
		of(s).lapse()
	}
	for _, g := range e.Sessions.Granted {
		of(g.Session).grant(g)
	}
	for _, p := range e.Sessions.Promised {
		if s, ok := p.Handle.(*Session); ok && s.promise(p.Until, suspensions) && !p.Regained {
			missed = append(missed, p.Session)
		}
	}
	for i := range e.Sessions.Events {
		of(e.Sessions.Events[i].Session).happened(&e.Sessions.Events[i])
	}
	for _, s := range e.Sessions.Ended {
		of(s.Session).end(s.Err)
	}
	return missed
}

// of returns the application's session for a session of the core.
func of(s *sessions.Session) *Session {
	mine, _ := s.Handle.(*Session)
	return mine
}

// connections dials, sends and hangs up. All messages to one connection go to its stream in one call, which the stream
// sends as one message.
func (l *loop) connections(ctx context.Context, e *core.Effects) {
	for _, a := range e.Conns.Actions {
		if a.Conn != l.sending.to || a.Do != conn.Send {
			l.send()
		}
		switch a.Do {
		case conn.Dial:
			l.dial(ctx, a.Conn)
		case conn.Send:
			l.sending.to = a.Conn
			l.sending.messages = append(l.sending.messages, a.Message)
		case conn.HangUp:
			l.streams[a.Conn].Close()
			delete(l.streams, a.Conn)
		case conn.AskMembers:
			l.streams[a.Conn].AskMembers(ctx, &l.running, l.cfg.ConnectTimeout, &listener{l, a.Conn})
		}
	}
	l.send()
	for _, name := range e.Conns.Lookups {
		l.resolve(ctx, name)
	}
}

// sending collects the messages to one connection.
type sending struct {
	to       *conn.Conn
	messages []*holdfastv1.ClientMessage
}

func (l *loop) send() {
	s := &l.sending
	if len(s.messages) == 0 {
		return
	}
	l.streams[s.to].Send(s.messages...)
	clear(s.messages)
	s.to, s.messages = nil, s.messages[:0]
}

// notifyClient notifies the pool, waiting callers, the log and the application. A logger and OnNode come last because
// they may block.
func (l *loop) notifyClient(e *core.Effects) {
	l.shared.occupancy.note(e.Load)
	if e.Conns.Adopted != "" && l.shared.served != nil {
		l.shared.served(e.Conns.Adopted)
	}
	if e.Conns.Learnt != nil && l.shared.learnt != nil {
		l.shared.learnt(e.Conns.Learnt)
	}
	for _, a := range e.Sessions.Answers {
		w, _ := a.Call.Handle.(*waiter)
		o := outcome{err: a.Err}
		if a.Session != nil {
			o.s = of(a.Session)
		}
		w.answer <- o
	}
	for _, line := range e.Conns.Logs {
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
