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
		r.due = l.now.Add(l.jitter.Backoff(h.contested))
		c.again.push(r)
	}
	l.servedFor(c, h.token)
	return true
}

// holder returns who has the session by the word of a refusal, nil when that does not tell.
func holder(err error) *session.MovedError {
	now, _ := errors.AsType[*session.MovedError](err)
	return now
}

// movedAll handles the news that sessions were resumed through another connection.
func (l *loop) movedAll(c *conn, m *holdfastv1.Moved) {
	for i, id := range m.GetIds() {
		var now *session.MovedError
		if by := m.GetInstances(); i < len(by) && by[i] != 0 {
			now = &session.MovedError{Instance: by[i]}
		}
		if h := l.sessions[session.ID(id)]; h != nil {
			l.moved(h, c, now)
		}
	}
}

// moved handles the news that c does not serve h any more, because an instance has resumed it through another
// connection. If that is this client's own, one of its resumes took effect late, and it resumes again. If it is
// another's, the session was taken over. If it is none, nobody has resumed it: the client does, once; a node that goes
// on saying so, and takes no touch meanwhile, is believed. A node that does not tell, of a former release, may speak of
// a resume of this client's own whose outcome it never heard, and then it resumes once, too. Without such a resume it
// is believed at once: the log of that release would let the client take back what was handed over.
func (l *loop) moved(h *held, c *conn, now *session.MovedError) {
	if h.on != c {
		return
	}
	h.on = nil
	own := now != nil && now.Instance == l.cfg.Instance
	taken := now != nil && now.Instance != 0 || now == nil && !h.unheard
	if !own && (taken || h.doubted) {
		l.end(h, session.ErrMoved)
		return
	}
	h.doubted = !own
	if h.resuming == nil {
		l.emit(h, disconnected, errOvertaken)
	}
	l.rejoin()
}
