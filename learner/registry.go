package learner

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"

	"holdfast/session"
)

// registry answers what this node knows of a session that it does not serve: from its replicated state, and from the
// local sessions that it remembers. Safe for concurrent use.
type registry struct {
	node session.Node
	// locals is set when the cluster allows local sessions.
	locals bool
	view   Sessions
	local  *Local
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

// certificate returns how a session ended, false when this node does not know.
func (r *registry) certificate(id session.ID) (session.Certificate, bool) {
	if c, ok := r.view.Certificate(id); ok {
		return c, true
	}
	return r.local.certificate(id)
}

// gone returns the refusal of a session that neither the state nor this node holds.
func (r *registry) gone(id session.ID) error {
	if certificate, ok := r.certificate(id); ok {
		return expired(&certificate)
	}
	return &session.ExpiredError{ID: id}
}

// moved returns the refusal of a session that is not served here, or not through the attachment that the client named.
// It names the instance that has the session now, as far as this node knows.
func (r *registry) moved(id session.ID) error {
	if now, ok := r.view.Session(id); ok {
		return session.MovedTo(now)
	}
	return session.ErrMoved
}

// notHere returns the refusal of a session that no attachment of a connection serves. It says that the session has
// ended only when the node knows the end: an id alone does not tell whether the node has applied the open yet (M5).
func (r *registry) notHere(id session.ID) error {
	if certificate, ok := r.certificate(id); ok {
		return expired(&certificate)
	}
	return r.moved(id)
}

// explain completes the leader's refusal of a request for the session of a token. A refusal that the session has moved
// or ended is returned once this node has applied the move or the end: the index of the answer to the client would
// otherwise be below what the answer tells (N4). An end gets its certificate. Without a certificate, a local token's
// refusal names the only node that can know more (L6), while a global token shows that the log has known the session.
//
// A leader that has committed the upgrade of a session but not applied it says that the session has ended. When this
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

// ofTheLog reports whether a refusal says that the session has moved or ended: something that the log has decided.
func ofTheLog(err error) bool {
	return errors.Is(err, session.ErrMoved) || errors.Is(err, session.ErrExpired)
}

// explained is explain once this node has applied the index of the leader's reply.
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
