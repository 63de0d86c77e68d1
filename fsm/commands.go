package fsm

import (
	"fmt"

	"holdfast/session"
)

// step applies the commands of one entry in their order, and gathers the changes.
type step struct {
	*tables
	index, term uint64
	changes     []session.Change
	tree        treeStep
}

// mostChanges returns how many changes commands make at most.
func mostChanges(commands []session.Command) int {
	n := 0
	for _, c := range commands {
		switch c := c.(type) {
		case session.CloseSessions:
			n += len(c.Sessions)
		case session.MoveSessions:
			n += len(c.Sessions)
		case session.OpenSession, session.MoveSession, session.UpgradeSession:
			n++
		}
	}
	return n
}

func (s *step) apply(c session.Command) session.Result {
	r := session.Result{Index: s.index, Term: s.term}
	if !s.enter(c) {
		return s.full(c, r)
	}
	before := len(s.changes)
	switch c := c.(type) {
	case session.OpenSession:
		r.Session, r.Err = s.open(c)
		r.Repeated = r.Err == nil && len(s.changes) == before
	case session.MoveSession:
		r.Session, r.Err = s.move(c)
		r.Repeated = r.Err == nil && len(s.changes) == before
	case session.MoveSessions:
		r.Moved = s.moves(c)
	case session.CloseSessions:
		r.Closed = s.close(c)
	case session.ForgetRequests:
		s.forgetRequests(c.UpToIndex)
	case session.Configure:
		s.configure(c)
	case session.SetCapacity:
		s.capacity = c.Capacity
	case session.UpgradeSession:
		r.Session, r.Err = s.upgrade(c)
		r.Repeated = r.Err == nil && len(s.changes) == before
	case session.ClaimIDs:
		r.First, r.Err = s.claim(c)
	case session.FreezeExpiry, session.ThawExpiry, session.ExtendSession:
		r.Err = s.ofOperators(c)
	case writeCommand, acknowledgeCommand, reapCommand:
		r.Err = s.applyTree(c)
	default:
		panic(fmt.Sprintf("fsm: command %T was decoded and cannot be applied", c))
	}
	return r
}

// open makes a session with a new id (O1) and attachment. A remembered request id returns the session of its first open
// and changes nothing (O2), also when there is no room for a new session (O4).
func (s *step) open(c session.OpenSession) (session.Session, error) {
	if earlier, ok := s.requests.find(c.RequestID); ok {
		if r, ok := s.session(earlier.session); ok {
			return r.session(), nil
		}
		return session.Session{}, s.expired(earlier.session)
	}
	if err := s.room(c); err != nil {
		return session.Session{}, err
	}
	id, err := session.NextID(s.marks[c.Node], c.Node, c.MS)
	if err != nil {
		return session.Session{}, err
	}
	s.attachment++
	r := &storedSession{
		id: id, attachment: s.attachment, owner: c.Node, timeoutMS: uint32(c.Timeout.Milliseconds()),
		openedIndex: s.index, openedMS: c.MS, instance: c.Instance,
	}
	if labels := c.Labels; len(labels) > 0 {
		r.labels = &labels
	}
	s.setMark(id)
	s.putSession(r)
	s.addRequest(&request{id: c.RequestID, session: id, index: s.index})
	return s.changed(session.Opened, r), nil
}

// move sets the session's owner and attachment (M1). A session that no instance has resumed takes every move, because
// its client knows the newest attachment whichever attachment its token names: the session has had only the attachment
// of its open, or a local attachment and that of its upgrade.
func (s *step) move(c session.MoveSession) (session.Session, error) {
	old, ok := s.session(c.ID)
	if !ok {
		return session.Session{}, s.expired(c.ID)
	}
	if c.Instance == old.instance {
		if c.Attempt < old.attempt {
			return session.Session{}, session.MovedTo(old.session())
		}
		if c.Attempt == old.attempt && c.NewOwner == old.owner {
			// This repeats a move whose answer was lost. A new attachment would end the connection of that move.
			return old.session(), nil
		}
	} else if old.instance != 0 && !names(c, old.attachment) {
		return session.Session{}, session.MovedTo(old.session())
	}
	if c.Instance != old.instance {
		s.space.writers.Moved(uint64(c.ID)) // X4
	}
	s.attachment++
	r := *old
	r.owner, r.attachment, r.instance, r.attempt = c.NewOwner, s.attachment, c.Instance, c.Attempt
	s.putSession(&r)
	now := s.changed(session.Moved, &r)
	s.changes[len(s.changes)-1].Former = old.instance
	return now, nil
}

// moves moves several sessions, each as move does, in their order.
func (s *step) moves(c session.MoveSessions) []session.MoveResult {
	moved := make([]session.MoveResult, len(c.Sessions))
	for i := range moved {
		before := len(s.changes)
		now, err := s.move(c.Each(i))
		if err != nil {
			moved[i].Err = err
			continue
		}
		moved[i].Attachment, moved[i].Repeated = now.Attachment, len(s.changes) == before
	}
	return moved
}

// names reports whether c names the attachment.
func names(c session.MoveSession, attachment uint64) bool {
	return !c.NamedLocal && c.Named == attachment
}

// close ends the sessions that still have the attachments that the deciding leader saw. If the leader decided in
// another term than that of the entry, close ends nothing: another leader may have made promises since (E3). Nothing
// expires in a freeze, and no session that an operator keeps (Y3, Y4).
func (s *step) close(c session.CloseSessions) []bool {
	closed := make([]bool, len(c.Sessions))
	if c.Term != s.term {
		return closed
	}
	d := drops{sessions: &s.sessions}
	defer d.end()
	var r storedSession
	for i, named := range c.Sessions {
		ok := d.find(named.ID, &r)
		if !ok || r.attachment != named.Attachment || c.Cause == session.CauseExpired && !s.mayExpire(r.id) {
			continue
		}
		cert := certificate{
			id: r.id, number: s.issued, term: s.term, index: s.index, cause: c.Cause, owner: r.owner,
			age: packAge(named.LastTouchAge), credited: packCredited(c.Credited), ms: c.MS,
			clock: s.space.time.Log,
			left:  s.bequeath(&r, c.Cause), story: s.story(&r, &c, &named),
		}
		s.dropSession(&d, &r)
		s.addCertificate(&cert)
		closed[i] = true
		s.changes = append(s.changes, session.Change{
			Kind: session.Ended, Session: r.session(), Certificate: cert.session(), Stamp: s.stamp(),
		})
	}
	return closed
}

// story returns what the certificate of a session tells besides.
func (s *step) story(r *storedSession, c *session.CloseSessions, named *session.Closing) *session.Story {
	story := &session.Story{
		Timeout: unpackTimeout(r.timeoutMS), OpenedAt: session.TimeOfMS(r.openedMS),
		Late: named.Late, Credit: named.Credit, Silent: named.Silent, By: c.By, Why: c.Why,
	}
	if r.labels != nil {
		story.Labels = *r.labels
	}
	return story
}

// upgrade makes a local session global (L7). A repeat returns the session, or says that it has ended. No repeat makes a
// second session.
func (s *step) upgrade(c session.UpgradeSession) (session.Session, error) {
	if r, ok := s.session(c.ID); ok {
		return r.session(), nil
	}
	if _, ended := s.certificate(c.ID); ended || s.forgot(c.Since) {
		return session.Session{}, s.expired(c.ID)
	}
	if mark := s.marks[c.ID.Node()]; c.ID > mark {
		limit := fmt.Sprintf("an id that its node has claimed, at most %v", mark)
		return session.Session{}, outOfRange("session_id", limit)
	}
	if err := s.room(c); err != nil {
		return session.Session{}, err
	}
	s.attachment++
	r := &storedSession{
		id: c.ID, attachment: s.attachment, owner: c.ID.Node(), timeoutMS: uint32(c.Timeout.Milliseconds()),
		instance: c.Instance, attempt: c.Attempt, openedIndex: s.index, openedMS: c.MS,
	}
	if labels := c.Labels; len(labels) > 0 {
		r.labels = &labels
	}
	s.putSession(r)
	return s.changed(session.Opened, r), nil
}

// configure takes the cluster key and the feature level (W8) if there are none, and the limits of the tree. Replacing a
// key would make every credential of a client invalid.
func (s *step) configure(c session.Configure) {
	if s.key == (session.Key{}) {
		s.key = c.Key
	}
	if s.space.level == 0 {
		s.space.level = c.Level
	}
	s.space.limits = c.Limits
	s.space.tree.SetLimits(c.Limits)
}

// claim moves a node's mark over a block of ids (O3).
func (s *step) claim(c session.ClaimIDs) (session.ID, error) {
	first, last, err := session.NextBlock(s.marks[c.Node], c.Node, c.MS, c.Count)
	if err != nil {
		return 0, err
	}
	s.setMark(last)
	return first, nil
}

func (s *step) changed(kind session.ChangeKind, r *storedSession) session.Session {
	now := r.session()
	s.changes = append(s.changes, session.Change{Kind: kind, Session: now, Stamp: s.stamp()})
	return now
}
