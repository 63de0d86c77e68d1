package wire

import (
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/tree"
)

// WatchingFrom returns a client's request to watch sessions. Every stamp is valid: the node waits a bounded time for
// seen (N4 seen index), and sends the events that it has after since.
func WatchingFrom(p *holdfastv1.WatchSessionsRequest) session.Watching {
	return session.Watching{
		Since:   tree.Stamp(p.GetSince()),
		Options: tree.ReadOptions{Seen: tree.Stamp(p.GetSeen()), AllowStale: p.GetAllowStale()},
	}
}

// WatchingProto is the inverse of [WatchingFrom].
func WatchingProto(w session.Watching) *holdfastv1.WatchSessionsRequest {
	return &holdfastv1.WatchSessionsRequest{
		Since: uint64(w.Since), Seen: uint64(w.Options.Seen), AllowStale: w.Options.AllowStale,
	}
}

// SessionEventProto returns an event for a watcher of sessions, without the node's state.
func SessionEventProto(e session.Event) *holdfastv1.WatchSessionsResponse {
	p := &holdfastv1.WatchSessionsResponse{Stamp: uint64(e.Stamp)}
	switch {
	case e.Opened != nil:
		p.Event = &holdfastv1.WatchSessionsResponse_Opened{Opened: SessionProto(*e.Opened)}
	case e.Moved != nil:
		p.Event = &holdfastv1.WatchSessionsResponse_Moved{Moved: SessionProto(*e.Moved)}
	case e.Ended != nil:
		p.Event = &holdfastv1.WatchSessionsResponse_Ended{Ended: CertificateProto(*e.Ended)}
	case e.Lost:
		p.Event = &holdfastv1.WatchSessionsResponse_Lost{Lost: &holdfastv1.Lost{Stamp: uint64(e.Stamp)}}
	}
	return p
}

// SessionEventFrom returns an event for a watcher of sessions. The error is a [session.FieldError].
func SessionEventFrom(p *holdfastv1.WatchSessionsResponse) (session.Event, error) {
	e := session.Event{Stamp: tree.Stamp(p.GetStamp())}
	var err error
	switch m := p.GetEvent().(type) {
	case *holdfastv1.WatchSessionsResponse_Opened:
		var s session.Session
		s, err = SessionFrom(m.Opened)
		e.Opened = &s
	case *holdfastv1.WatchSessionsResponse_Moved:
		var s session.Session
		s, err = SessionFrom(m.Moved)
		e.Moved = &s
	case *holdfastv1.WatchSessionsResponse_Ended:
		var c session.Certificate
		c, err = CertificateFrom(m.Ended)
		e.Ended = &c
	case *holdfastv1.WatchSessionsResponse_Lost:
		e.Lost = true
	}
	if err == nil && e.Stamp == 0 {
		err = &session.FieldError{Field: "stamp", Limit: notZero}
	}
	if err != nil {
		return session.Event{}, err
	}
	return e, nil
}
