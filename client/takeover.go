package client

import (
	"errors"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// maxTakeOvers is how often a refused take-over is repeated. Each refusal says that yet another process has resumed
// the session.
const maxTakeOvers = 10

// takeOver repeats the resume of a caller, who wants the session whoever holds it: with the attachment that the
// refusal names (M1). It reports whether it does. The first repeat goes out at once, because an old token is the
// common case; later ones wait, so that two that fight for a session come to an end. A resume that nobody waits for
// is not repeated: the session was taken from this client.
func (l *loop) takeOver(c *conn, r *request, h *held, err error) bool {
	now, ok := errors.AsType[*session.MovedError](err)
	if h.joining == nil || !ok || now.Instance == l.cfg.Instance || h.contested == maxTakeOvers {
		return false
	}
	h.joining.last = err
	h.token.Attachment, h.token.Local = now.Attachment, now.Local
	if h.contested++; h.contested == 1 {
		c.queue = append(c.queue, r)
	} else {
		r.due = l.now.Add(l.dice.backoff(h.contested))
		c.again.push(r)
	}
	l.servedFor(c, h.token)
	return true
}

// holder returns the instance that has the session by the word of a refusal, 0 when that does not tell.
func holder(err error) uint64 {
	if now, ok := errors.AsType[*session.MovedError](err); ok {
		return now.Instance
	}
	return 0
}

// movedAll handles the news that sessions were resumed through another connection.
func (l *loop) movedAll(c *conn, m *holdfastv1.Moved) {
	for i, id := range m.GetIds() {
		var by uint64
		if all := m.GetInstances(); i < len(all) {
			by = all[i]
		}
		if h := l.sessions[session.ID(id)]; h != nil {
			l.moved(h, c, by)
		}
	}
}

// moved handles the news that c does not serve h any more, because an instance has resumed it through another
// connection. If that is this client's own, one of its resumes took effect late, and it resumes again. If it is
// another's, the session was taken over. A node that cannot tell says 0. Then the client resumes once, which the log
// refuses if another instance has the session (M1); a node that goes on saying so, and takes no touch meanwhile, is
// believed.
func (l *loop) moved(h *held, c *conn, by uint64) {
	if h.on != c {
		return
	}
	h.on = nil
	if by != l.cfg.Instance && (by != 0 || h.doubted) {
		l.end(h, session.ErrMoved)
		return
	}
	h.doubted = by == 0
	if h.resuming == nil {
		l.emit(h, disconnected, errOvertaken)
	}
	l.rejoin()
}
