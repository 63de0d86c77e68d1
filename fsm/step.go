package fsm

import (
	"fmt"

	"holdfast/fsm/certificates"
	"holdfast/fsm/codec"
	"holdfast/fsm/entry"
	"holdfast/fsm/requests"
	"holdfast/fsm/sessions"
	"holdfast/session"
)

// step applies the commands of one entry in their order, and collects the changes.
type step struct {
	*tables
	index, term uint64
	changes     []session.Change
	tree        treeStep
}

// maxChanges bounds the number of changes that commands make.
func maxChanges(commands []session.Command) int {
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
	if !s.takePosition(c) {
		return s.refuseFull(c, r)
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
		r.Err = s.applyOperator(c)
	case entry.Write, entry.Acknowledge, entry.Reap:
		r.Err = s.applyTree(c)
	default:
		panic(fmt.Sprintf("fsm: command %T was decoded and cannot be applied", c))
	}
	return r
}

// open adds a session with a new id (O1 ids from the log) and a new attachment. An open with a remembered request id
// returns the session of the first open and changes nothing (O2 idempotent opens), also when the state is full (O4
// state limits).
func (s *step) open(c session.OpenSession) (session.Session, error) {
	if earlier, ok := s.requests.Find(c.RequestID); ok {
		if r, ok := s.session(earlier.Session); ok {
			return r.Session(), nil
		}
		return session.Session{}, s.expired(earlier.Session)
	}
	if err := s.checkCapacity(c); err != nil {
		return session.Session{}, err
	}
	id, err := session.NextID(s.marks[c.Node], c.Node, c.MS)
	if err != nil {
		return session.Session{}, err
	}
	s.setMark(id)
	s.addRequest(&requests.Request{ID: c.RequestID, Session: id, Index: s.index})
	r := sessions.Row{ID: id, Owner: c.Node, OpenedMS: c.MS, Instance: c.Instance}
	return s.addSession(&r, c.Spec), nil
}

// move sets the owner and the attachment of a session (M1 a resume is a move). A session that no instance has resumed
// accepts every move: such a session has had only the attachment of its open, or a local attachment and the attachment
// of its upgrade, so whichever of these the client's token names, the client knows the newest attachment.
func (s *step) move(c session.MoveSession) (session.Session, error) {
	old, ok := s.session(c.ID)
	if !ok {
		return session.Session{}, s.expired(c.ID)
	}
	if c.Instance == old.Instance {
		if c.Attempt < old.Attempt {
			return session.Session{}, session.MovedTo(old.Session())
		}
		if c.Attempt == old.Attempt && c.NewOwner == old.Owner {
			// A repeat of a move whose answer was lost. A new attachment would end the connection of the first move.
			return old.Session(), nil
		}
	} else if old.Instance != 0 && !namesAttachment(c, old.Attachment) {
		return session.Session{}, session.MovedTo(old.Session())
	}
	if c.Instance != old.Instance {
		s.treeState.writers.Moved(uint64(c.ID)) // X4
	}
	s.attachment++
	r := *old
	r.Owner, r.Attachment, r.Instance, r.Attempt = c.NewOwner, s.attachment, c.Instance, c.Attempt
	s.putSession(&r)
	now := s.recordChange(session.Moved, &r)
	s.changes[len(s.changes)-1].Former = old.Instance
	return now, nil
}

// moves moves several sessions in their order, each as move does.
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

// namesAttachment reports whether c names the attachment.
func namesAttachment(c session.MoveSession, attachment uint64) bool {
	return !c.NamedLocal && c.Named == attachment
}

// close ends the sessions whose attachment is still the one that the deciding leader saw. If the entry has another term
// than the decision, close ends no session: another leader may have made promises since (E3 ordered closes). Sessions
// do not expire in a freeze (Y3 freeze), and an extended session does not expire (Y4 extension).
func (s *step) close(c session.CloseSessions) []bool {
	closed := make([]bool, len(c.Sessions))
	if c.Term != s.term {
		return closed
	}
	d := s.sessions.Remover()
	defer d.End()
	var r sessions.Row
	for i, named := range c.Sessions {
		ok := d.Find(named.ID, &r)
		if !ok || r.Attachment != named.Attachment || c.Cause == session.CauseExpired && !s.mayExpire(r.ID) {
			continue
		}
		cert := certificates.Certificate{
			ID: r.ID, Number: s.issued, Term: s.term, Index: s.index, Cause: c.Cause, Owner: r.Owner,
			AgeMS: codec.AgeMS(named.LastTouchAge), CreditedMS: codec.CreditedMS(c.Credited), MS: c.MS,
			Clock: s.treeState.time.Log,
			Left:  s.endInTree(&r, c.Cause), Story: s.story(&r, &c, &named),
		}
		s.removeSession(&d, &r)
		s.addCertificate(&cert)
		closed[i] = true
		ended := cert.Session()
		s.changes = append(s.changes, session.Change{
			Kind: session.Ended, Session: r.Session(), Certificate: &ended, Stamp: s.stamp(),
		})
	}
	return closed
}

// story returns the story for the certificate of a session.
func (s *step) story(r *sessions.Row, c *session.CloseSessions, named *session.Closing) *session.Story {
	return &session.Story{
		Spec: r.Spec(), OpenedAt: session.TimeOfMS(r.OpenedMS),
		Late: named.Late, Credit: named.Credit, Silent: named.Silent, By: c.By, Why: c.Why,
	}
}

// upgrade makes a local session global (L7 upgrade). A repeat returns the session, or the error that it has ended; it
// never makes a second session.
func (s *step) upgrade(c session.UpgradeSession) (session.Session, error) {
	if r, ok := s.session(c.ID); ok {
		return r.Session(), nil
	}
	if _, ended := s.certificate(c.ID); ended || s.forgotSince(c.Since) {
		return session.Session{}, s.expired(c.ID)
	}
	if mark := s.marks[c.ID.Node()]; c.ID > mark {
		limit := fmt.Sprintf("an id that its node has claimed, at most %v", mark)
		return session.Session{}, codec.OutOfRange("session_id", limit)
	}
	if err := s.checkCapacity(c); err != nil {
		return session.Session{}, err
	}
	r := sessions.Row{ID: c.ID, Owner: c.ID.Node(), OpenedMS: c.MS, Instance: c.Instance, Attempt: c.Attempt}
	return s.addSession(&r, c.Spec), nil
}

// addSession gives r its spec and the next attachment, and adds the session.
func (s *step) addSession(r *sessions.Row, spec session.Spec) session.Session {
	s.attachment++
	r.Attachment, r.OpenedIndex = s.attachment, s.index
	r.SetSpec(spec)
	s.putSession(r)
	return s.recordChange(session.Opened, r)
}

// configure sets the limits of the tree, and the cluster key and the feature level (W8 feature level) of a new cluster.
// It never replaces a key: a new key would make every credential of a client invalid.
func (s *step) configure(c session.Configure) {
	if s.key == (session.Key{}) {
		s.key = c.Key
	}
	if s.treeState.level == 0 {
		s.treeState.level = c.Level
	}
	s.treeState.limits = c.Limits
	s.treeState.tree.SetLimits(c.Limits)
}

// claim raises a node's mark by a block of ids (O3 id blocks).
func (s *step) claim(c session.ClaimIDs) (session.ID, error) {
	first, last, err := session.NextBlock(s.marks[c.Node], c.Node, c.MS, c.Count)
	if err != nil {
		return 0, err
	}
	s.setMark(last)
	return first, nil
}

func (s *step) recordChange(kind session.ChangeKind, r *sessions.Row) session.Session {
	now := r.Session()
	s.changes = append(s.changes, session.Change{Kind: kind, Session: now, Stamp: s.stamp()})
	return now
}
