package core

import (
	"math"
	"time"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// How a client resumes all that it had on a lost node. Each session has a resume of its own in the window, which is
// refused, put off and repeated by itself. Those that wait together go out in one message, and the outcomes in its
// answer are judged one after the other, exactly as the answers to single resumes. Local sessions and sessions that a
// caller waits for are resumed one by one: their resumes may be refused in ways that the message has no room for.

const (
	// maxResumes bounds the sessions in one message, whatever the node allows.
	maxResumes = 1024
	// fewResumes go out one by one on a connection whose node has not told yet what it takes. When there are more, the
	// first goes out, and the others when the node has answered anything.
	fewResumes = 16
	// resumesEvery is how far apart the moments are at which refused resumes go out again. A node that refuses thousands
	// names as many moments, and those of a few milliseconds share a message.
	resumesEvery = 5 * time.Millisecond
)

// resumesBody resumes the sessions of its request's members with one message.
type resumesBody struct{ members []*window.Request }

// Wanted is true.
func (b *resumesBody) Wanted() bool { return true }

// message takes a new attempt for each session, as that of a single resume.
func (b *resumesBody) message(l *ledger, seq uint64) *holdfastv1.ClientMessage {
	n := len(b.members)
	m := &holdfastv1.ResumeSessions{
		Seq: seq, Instance: l.cfg.Instance, SeenIndex: l.demand(), Ids: make([]uint64, 0, n),
		Credentials: make([]byte, 0, n*len(session.Credential{})), Attachments: make([]uint64, 0, n),
		Attempts: make([]uint64, 0, n),
	}
	for _, r := range b.members {
		of, ok := r.Body.(*resumeBody)
		if !ok {
			continue // only resumes are members
		}
		h := of.h
		l.attempts++
		of.local = false
		m.Ids = append(m.Ids, uint64(h.id))
		m.Credentials = append(m.Credentials, h.token.Credential[:]...)
		m.Attachments = append(m.Attachments, h.token.Attachment)
		m.Attempts = append(m.Attempts, l.attempts)
	}
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_ResumeSessions{ResumeSessions: m}}
}

// goesAlong reports whether a request may be one of several in a message.
func goesAlong(b window.Body) bool {
	r, ok := b.(*resumeBody)
	return ok && !r.h.token.Local && r.h.joining == nil
}

// untold reports whether many resumes wait until the node has told what it takes: one of them is on its way.
func (c *Conn) untold() bool {
	return !c.heard && c.window.Waiting() >= fewResumes && c.window.Asked()
}

// sendResumes sends the first resumes of the queue with one message. It reports false when none can be sent now.
func (q *requests) sendResumes(c *Conn) bool {
	members := c.window.Together(c.batch, goesAlong)
	switch len(members) {
	case 0:
		return false
	case 1:
		q.send(c, members[0])
	default:
		q.send(c, &window.Request{Body: &resumesBody{members}, Members: members})
	}
	return true
}

// resumedAll judges the outcome of each session: first of those that were resumed, by which a candidate becomes the
// present connection, and then of those that were refused.
func (a *answers) resumedAll(c *Conn, r *window.Request, m *holdfastv1.ResumedSessions) {
	n := len(r.Members)
	if len(m.GetAttachments()) != n || len(m.GetSafeForMs()) != n {
		a.resumesRefused(c, r, session.ErrOutcomeUnknown)
		return
	}
	refused := make(map[session.ID]error, len(m.GetFailures()))
	for _, f := range m.GetFailures() {
		refused[session.ID(f.GetId())] = wire.FromDetail(f.GetError(), "")
	}
	// The outcomes in the order in which they are judged: by place in the message.
	order := make([]int, 0, n)
	for _, granted := range []bool{true, false} {
		for i, attachment := range m.GetAttachments() {
			if attachment != 0 == granted {
				order = append(order, i)
			}
		}
	}
	ordered := make([]*window.Request, n)
	for at, i := range order {
		ordered[at] = r.Members[i]
	}
	a.settle(c, ordered, func(at int, member *window.Request, b *resumeBody) {
		if i := order[at]; m.GetAttachments()[i] != 0 {
			a.resumedOf(c, member, b, grantOf(m, i))
			return
		}
		err := refused[b.h.id]
		if err == nil {
			err = session.ErrOutcomeUnknown // the node owes the reason
		}
		a.resumeRefused(c, member, b, err)
	})
}

// promiseFrom returns a promise of so many milliseconds, negative for none.
func promiseFrom(ms uint64) time.Duration {
	if ms == 0 {
		return wire.Unknown
	}
	return time.Duration(min(ms, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// grantOf returns what the answer tells of the i-th session: no more than what is new.
func grantOf(m *holdfastv1.ResumedSessions, i int) session.Grant {
	g := session.Grant{
		Session: session.Session{Attachment: m.GetAttachments()[i]}, SafeFor: promiseFrom(m.GetSafeForMs()[i]),
	}
	if len(m.GetApplied()) == len(m.GetAttachments()) && len(m.GetFloors()) == len(m.GetAttachments()) {
		g.Applied, g.Floor = m.GetApplied()[i], min(m.GetFloors()[i], m.GetApplied()[i])
	}
	return g
}

// resumedOf is resumed for an answer that tells no more than what is new.
func (a *answers) resumedOf(c *Conn, r *window.Request, b *resumeBody, g session.Grant) {
	if !a.holds(b.h) {
		c.stray = true
		return
	}
	g.Token, g.Session.Owner = b.h.token, c.state.Node
	g.Token.Attachment = g.Session.Attachment
	a.regain(c, r, b, g)
}

// resumesRefused handles the refusal of a whole message. A refusal that asking again does not change is about the
// message, not about any session: each session is then asked for by itself on this connection.
func (a *answers) resumesRefused(c *Conn, r *window.Request, err error) {
	if route.Judge(err) == route.Final {
		c.alone = true
		for _, member := range r.Members {
			c.window.Repeat(member)
		}
		return
	}
	a.settle(c, r.Members, func(_ int, member *window.Request, b *resumeBody) { a.resumeRefused(c, member, b, err) })
}

// settle judges the members of a request, as long as c is tried or serves. Those that are left when it is dropped are
// released with it.
func (a *answers) settle(c *Conn, members []*window.Request, judge func(int, *window.Request, *resumeBody)) {
	c.window.Settle(members, func(i int, member *window.Request) bool {
		if b, ok := member.Body.(*resumeBody); ok {
			judge(i, member, b)
		}
		return c == a.cur || c == a.next
	})
}
