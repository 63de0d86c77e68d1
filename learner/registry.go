package learner

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"

	"holdfast/learner/local"
	"holdfast/session"
)

// registry answers requests about sessions that this node does not serve, from the replicated state and from the
// remembered local sessions. Safe for concurrent use.
type registry struct {
	node session.Node
	// locals is set when the cluster allows local sessions.
	locals bool
	view   Sessions
	local  *local.Table
	wait   *applyWait
}

// authentic checks a token's credential.
func (r *registry) authentic(t session.Token) error {
	want, ok := r.view.Credential(t.ID)
	if !ok {
		return session.ErrLagging
	}
	if subtle.ConstantTimeCompare(want[:], t.Credential[:]) != 1 {
		return session.ErrBadCredential
	}
	return nil
}

// certificate returns a session's certificate; false when this node has none.
func (r *registry) certificate(id session.ID) (session.Certificate, bool) {
	if c, ok := r.view.Certificate(id); ok {
		return c, true
	}
	return r.local.Certificate(id)
}

// gone returns the refusal for a session that is neither in the state nor local.
func (r *registry) gone(id session.ID) error {
	if certificate, ok := r.certificate(id); ok {
		return expired(&certificate)
	}
	return &session.ExpiredError{ID: id}
}

// moved returns the refusal for a session that is not served here, or not through the client's attachment. It names the
// instance that has the session now, if this node knows it.
func (r *registry) moved(id session.ID) error {
	if now, ok := r.view.Session(id); ok {
		return session.MovedTo(now)
	}
	return session.ErrMoved
}

// notHere returns the refusal for a session without an attachment on the connection. It reports the session as ended
// only when the node knows the end: an id alone does not say whether the node has applied the open yet (M5 lagging, not
// expired).
func (r *registry) notHere(id session.ID) error {
	if certificate, ok := r.certificate(id); ok {
		return expired(&certificate)
	}
	return r.moved(id)
}

// explain completes the leader's refusal of a request for the session of a token. A refusal because the session has
// moved or ended is returned once this node has applied the move or the end, so that the index of the client's answer
// covers the answer's content (N4 seen index). An end gets its certificate. Without a certificate, the refusal of a
// local token names the only node that can know more (L6 unknown local sessions), while a global token proves that the
// log has known the session.
//
// A leader that has committed the upgrade of a session but not applied it reports the session as ended. When this
// node's state has the session, the refusal is session.ErrLagging instead (M5).
func (r *registry) explain(ctx context.Context, reply session.Reply, err error, t session.Token) error {
	if !ofTheLog(err) {
		return err
	}
	if behind := r.wait.index(ctx, reply.Index); behind != nil {
		return behind
	}
	return r.explained(err, t)
}

// ofTheLog reports whether a refusal says that the session has moved or ended, which the log decides.
func ofTheLog(err error) bool {
	return errors.Is(err, session.ErrMoved) || errors.Is(err, session.ErrExpired)
}

// explained completes a refusal as explain does, after this node has applied the index of the leader's reply.
func (r *registry) explained(err error, t session.Token) error {
	gone := (*session.ExpiredError)(nil)
	if errors.As(err, &gone); gone == nil || gone.Certificate != nil {
		return err
	}
	if _, lives := r.view.Session(t.ID); lives {
		return session.ErrLagging
	}
	err = r.gone(cmp.Or(t.ID, gone.ID))
	if errors.As(err, &gone) && gone.Certificate == nil && r.locals && t.Local && t.ID.Node() != r.node &&
		t.ID.Node().Valid() {
		gone.LocalTo = t.ID.Node()
	}
	return err
}

func expired(c *session.Certificate) error {
	certificate := *c
	return &session.ExpiredError{ID: c.ID, Certificate: &certificate}
}
