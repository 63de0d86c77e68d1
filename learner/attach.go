package learner

import (
	"time"

	"holdfast/learner/local"
	"holdfast/session"
)

// attach begins to serve s through conn, with a confirmed touch (S2 opens and moves are touches); a tag of 0 means
// none. The caller must get the tag before it checks for a suspension, so that a later suspension voids the touch (S5
// suspended machines). attach returns nil when the node already serves a newer attachment of the session.
func (t *TouchTable) attach(s session.Session, conn *connection, confirmed mark, now time.Duration) *attached {
	sh := t.shardOf(s.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a := sh.serving.find(s.ID)
	switch {
	case a == nil || a.attachment < s.Attachment:
		if a != nil {
			a.end(session.MovedTo(s))
		}
		a = newAttached(&s, conn, now)
		sh.serving.put(a)
	case a.attachment > s.Attachment:
		return nil
	case conn != nil:
		a.conn = conn // the client lost the answer and repeats the request over a new connection
	}
	if confirmed.tag != 0 && confirmed.at >= a.confirmed.at {
		a.confirmed = confirmed
	}
	return a
}

// promote begins to serve s, until now a local session, through conn. The session keeps its newest touch, which the
// next answer reports (L8 one upgrade at a time), and gets a confirmed touch as in attach.
func (t *TouchTable) promote(s session.Session, conn *connection, from local.HandedOver, confirmed mark) *attached {
	sh := t.shardOf(s.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a := newAttached(&s, conn, from.Last)
	a.confirmed = confirmed
	a.more().local = from.Attachment
	sh.serving.put(a)
	sh.list(a)
	return a
}

// find returns the served attachment of a session, nil for none.
func (t *TouchTable) find(id session.ID) *attached {
	s := t.shardOf(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serving.find(id)
}

// end stops serving a session, unless through the attachment keep, and returns the connection to notify, nil for none.
// why is the refusal of later touches.
func (t *TouchTable) end(id session.ID, keep uint64, why error) *connection {
	s := t.shardOf(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.serving.find(id)
	if a == nil || a.attachment == keep {
		return nil
	}
	a.end(why)
	s.serving.drop(id)
	return a.conn
}

// drop stops serving an attachment, if the node still serves it. why is the refusal of later touches.
func (t *TouchTable) drop(a *attached, why error) {
	s := t.shardOf(a.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving.find(a.id) == a {
		a.end(why)
		s.serving.drop(a.id)
	}
}

// all returns the ids of all served sessions, in no order.
func (t *TouchTable) all() []session.ID {
	var ids []session.ID
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, a := range s.serving.slots {
			if a != nil {
				ids = append(ids, a.id)
			}
		}
		s.mu.Unlock()
	}
	return ids
}

// Len returns the number of served sessions.
func (t *TouchTable) Len() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += s.serving.size()
		s.mu.Unlock()
	}
	return n
}

// upgraded returns the attachment that the local attachment of a token became by its upgrade (L5 local attachments):
// the token keeps its meaning on the same connection. It returns nil when the session did not become global from that
// attachment, or is no longer served here.
func (t *TouchTable) upgraded(token session.Token) *attached {
	s := t.shardOf(token.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.serving.find(token.ID)
	if a == nil || !token.Local || a.rare == nil || a.rare.local == 0 || a.rare.local != token.Attachment {
		return nil
	}
	return a
}

// translate returns the token of the attachment that a local one became, otherwise the token itself.
func (t *TouchTable) translate(token session.Token) session.Token {
	if a := t.upgraded(token); a != nil {
		token.Attachment, token.Local = a.attachment, false
	}
	return token
}
