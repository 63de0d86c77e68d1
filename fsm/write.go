package fsm

import (
	"fmt"

	"holdfast/fsm/entry"
	"holdfast/fsm/sessions"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
	"holdfast/tree/store"
	"holdfast/tree/writers"
)

// treeStep is the part of a step for the tree.
type treeStep struct {
	// clocks are the leader's clocks at the moment when it put the entry together (D3 log clock).
	clocks entry.Clocks
	// position is the position of the newest command or ended session in the entry (D2 stamps).
	position int
	changes  []tree.Change
	wrote    []Wrote
}

// takePosition takes the position of a command. It reports false if the entry has no positions left for the command and
// for the sessions that the command may end: then the command changes nothing (D2).
func (s *step) takePosition(c session.Command) bool {
	positions := 1
	if c, ok := c.(session.CloseSessions); ok {
		positions += len(c.Sessions)
	}
	if s.tree.position+positions > tree.MaxPosition {
		return false
	}
	s.tree.position++
	return true
}

// refuseFull returns the result of a command without a position. Proposers end an entry long before (U2 weight).
func (s *step) refuseFull(c session.Command, r session.Result) session.Result {
	r.Err = &session.LimitError{Name: "positions_per_entry", Limit: "65535", RetryAfter: session.BusyRetryAfter}
	switch c := c.(type) {
	case session.CloseSessions:
		r.Closed, r.Err = make([]bool, len(c.Sessions)), nil // they are left alone, and closed again
	case session.MoveSessions:
		r.Moved = make([]session.MoveResult, len(c.Sessions))
		for i := range r.Moved {
			r.Moved[i].Err = r.Err
		}
	case entry.Write:
		s.tree.wrote = append(s.tree.wrote, Wrote{
			Session: session.ID(c.Session), Attachment: c.Attachment, Number: c.Number, At: s.stamp(), Err: r.Err,
		})
	}
	return r
}

// at returns the moment of the command, or of the end of the session, at the present position.
func (s *step) at() store.At {
	return store.At{Stamp: tree.StampAt(s.index, s.tree.position), L: s.treeState.time.Log, MS: s.tree.clocks.WallMS}
}

// stamp returns the stamp of the present position.
func (s *step) stamp() tree.Stamp { return tree.StampAt(s.index, s.tree.position) }

// applyTree applies a command of the tree.
func (s *step) applyTree(c session.Command) error {
	switch c := c.(type) {
	case entry.Write:
		return s.write(&c.NumberedWrite)
	case entry.Acknowledge:
		for _, one := range c.Acknowledged {
			s.treeState.writers.Acknowledge(one.Session, one.UpTo)
		}
	case entry.Reap:
		for _, one := range c.Due {
			_, changes := s.treeState.tree.Reap(s.at(), one)
			s.tree.changes = append(s.tree.changes, changes...)
		}
	}
	return nil
}

// write decides a write and executes it (W2 the state decides, X2 writers). The node that serves the session learns the
// outcome from its own state (W4 answers from applied entries); the leader does not use it.
func (s *step) write(w *tree.NumberedWrite) error {
	wrote := Wrote{
		Session: session.ID(w.Session), Attachment: w.Attachment, Number: w.Number,
		At: tree.StampAt(s.index, s.tree.position),
	}
	if w.ReadsBefore {
		if now, _ := s.treeState.writers.Writer(w.Session); w.Number > now.Applied {
			wrote.Before = s.treeState.tree.Freeze()
		}
	}
	wrote.Result, wrote.Err = s.decide(w)
	s.tree.wrote = append(s.tree.wrote, wrote)
	return wrote.Err
}

// decide returns the kept result of a write, or the reason for which the write has none.
func (s *step) decide(w *tree.NumberedWrite) ([]byte, error) {
	if err := s.mayWrite(w); err != nil {
		return nil, err
	}
	switch verdict, kept := s.treeState.writers.Admit(w.Session, w.Number, w.Acked); verdict {
	case writers.Apply:
		principal := tree.ShareOf(w.Principals)
		if w.Void { // it has no principals
			principal = s.treeState.writers.Principal(w.Session)
		} else if !s.treeState.writers.Fits(principal, form.MaxResult(w.Transaction)) {
			return nil, &tree.WindowError{Limit: windowLimit}
		}
		result := form.AppendResult(nil, s.execute(w, principal))
		s.treeState.writers.Keep(w.Session, w.Number, principal, result)
		return result, nil
	case writers.Repeat:
		return kept, nil
	case writers.Unknown:
		return nil, fmt.Errorf("%w: the result of write %d is gone", session.ErrOutcomeUnknown, w.Number)
	case writers.Gap:
		now, _ := s.treeState.writers.Writer(w.Session)
		return nil, &tree.GapError{Expected: now.Applied + 1}
	case writers.Window:
		return nil, &tree.WindowError{Limit: windowLimit}
	default:
		panic("fsm: a write without a verdict: " + verdict.String())
	}
}

const windowLimit = "256 results or 64 KiB of a session; 1 KiB, and 16 KiB in one result, while the results of its " +
	"client's sessions are above their share of 128 MiB"

// mayWrite refuses a write that was not sent by the present client process of its session (W3 attachment check, X5 the
// opener's instance).
func (s *step) mayWrite(w *tree.NumberedWrite) error {
	now, ok := s.session(session.ID(w.Session))
	switch {
	case !ok:
		return s.expired(session.ID(w.Session))
	case now.Attachment != w.Attachment:
		return session.MovedTo(now.Session())
	case now.Instance == 0:
		return session.ErrNoInstance
	default:
		return nil
	}
}

// execute executes a write under a new number. The kept result counts against the share of principal.
func (s *step) execute(w *tree.NumberedWrite, principal string) tree.Result {
	at := s.at()
	result := tree.Result{Stamp: at.Stamp, Void: w.Void}
	if w.Void {
		return result
	}
	will, err := s.will(w, principal)
	if err != nil {
		result.Outcome = tree.Outcome{At: -1, Refused: &tree.RefusedError{
			Code: tree.OverLimit, Verb: "set will", Detail: err.Error(),
		}}
		return result
	}
	at.Session, at.Principals = w.Session, w.Principals
	outcome, changes := s.treeState.tree.Do(at, w.Transaction)
	s.tree.changes = append(s.tree.changes, changes...)
	result.Outcome = outcome
	if w.Will == nil || outcome.Refused != nil {
		return result
	}
	if len(will.Data) == 0 {
		s.treeState.writers.ClearWill(w.Session)
	} else if err := s.treeState.writers.SetWill(w.Session, principal, will); err != nil {
		panic(fmt.Sprintf("fsm: a will that was within the bounds exceeds them: %v", err))
	}
	return result
}

// will returns the will that a write sets, in the form that the state keeps. It returns an empty will if the write sets
// none or withdraws one. It returns an error when the will exceeds the bounds of the writers.
func (s *step) will(w *tree.NumberedWrite, principal string) (writers.Will, error) {
	if w.Will == nil || len(w.Will.Transaction.Then)+len(w.Will.Transaction.Else) == 0 {
		return writers.Will{}, nil
	}
	data, err := form.AppendWill(nil, tree.KeptWill{Transaction: w.Will.Transaction, Principals: w.Principals})
	if err != nil {
		return writers.Will{}, err
	}
	will := writers.Will{Data: data, OnClose: w.Will.OnClose}
	return will, s.treeState.writers.CheckWill(w.Session, principal, will)
}

// endInTree ends the tree's part of a session in the entry that ends the session (U1 ephemerals end with the session,
// U3 wills). It returns the certificate's account of the tree, or nil when the session left nothing.
func (s *step) endInTree(r *sessions.Row, cause session.Cause) *session.Left {
	s.tree.position++
	last := s.treeState.writers.End(uint64(r.ID))
	end, will := s.treeState.tree.CloseSession, last.Will
	if cause != session.CauseClosed { // to its client a session that an operator ends is lost as well
		end = s.treeState.tree.ExpireSession
	} else if will != nil && !will.OnClose {
		will = nil
	}
	ended, changes := end(s.at(), uint64(r.ID), willOf(will))
	s.tree.changes = append(s.tree.changes, changes...)
	left := session.Left{
		Instance: r.Instance, Applied: last.Applied, Floor: last.Floor,
		Ephemerals: uint64(ended.Removed + ended.InLockDelay),
	}
	switch {
	case last.Will == nil:
	case ended.Will == nil:
		left.Will = tree.WillDropped
	case ended.Will.Refused != nil:
		left.Will = tree.WillRefused
	default:
		left.Will = tree.WillCarriedOut
	}
	if left == (session.Left{}) {
		return nil
	}
	return &left
}

// willOf decodes a kept will, which [step.will] has encoded.
func willOf(kept *writers.Will) *store.Will {
	if kept == nil {
		return nil
	}
	will, err := form.ParseWill(kept.Data)
	if err != nil {
		panic(fmt.Sprintf("fsm: a kept will cannot be read: %v", err))
	}
	return &store.Will{Principals: will.Principals, Transaction: will.Transaction}
}

// advanceClock moves the clocks to the leader's clocks in the entry (D3). It ends a freeze whose bound has come (Y3
// freeze).
func (s *step) advanceClock() { s.treeState.time = s.treeState.time.At(s.tree.clocks.Log) }
