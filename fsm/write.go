package fsm

import (
	"fmt"
	"slices"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
	"holdfast/tree/store"
	"holdfast/tree/writers"
)

// The tree's commands, as an entry that was decoded has them.
type (
	writeCommand struct {
		session.TreeCommand
		tree.NumberedWrite
	}
	acknowledgeCommand struct {
		session.TreeCommand
		all []tree.Acknowledgement
	}
	reapCommand struct {
		session.TreeCommand
		due []store.Reapable
	}
)

// Numbered returns the write that a command of [DecodeEntry] is, false for another command. The write is not to be
// modified.
func Numbered(c session.Command) (tree.NumberedWrite, bool) {
	w, ok := c.(writeCommand)
	return w.NumberedWrite, ok
}

// Acknowledged returns what a command of [DecodeEntry] acknowledges, nil for another command.
func Acknowledged(c session.Command) []tree.Acknowledgement {
	a, _ := c.(acknowledgeCommand)
	return a.all
}

// treeForm returns a command of the tree as the log has it, false if c is another command.
func treeForm(c session.Command) (session.TreeCommand, bool) {
	switch c := c.(type) {
	case session.TreeCommand:
		return c, true
	case writeCommand:
		return c.TreeCommand, true
	case acknowledgeCommand:
		return c.TreeCommand, true
	case reapCommand:
		return c.TreeCommand, true
	default:
		return session.TreeCommand{}, false
	}
}

// treeCommandFrom returns the tree's command that the bytes of a Command are, nil if they are another command.
func treeCommandFrom(command []byte) (session.Command, error) {
	kind := form.KindOf(command)
	if kind == form.Other {
		return nil, nil //nolint:nilnil // it is for another reader
	}
	as := session.TreeCommand{Encoded: slices.Clone(command), Weight: 1}
	if err := checkTreeCommand(as); err != nil {
		return nil, err
	}
	switch kind {
	case form.Write:
		w, err := form.ParseWrite(command)
		if err != nil {
			return nil, fmt.Errorf("write: %w", err)
		}
		as.Weight = tree.Weight(w.Transaction)
		return writeCommand{as, w}, nil
	case form.Acknowledge:
		all, err := form.ParseAcknowledge(command)
		if err != nil {
			return nil, fmt.Errorf("acknowledge: %w", err)
		}
		return acknowledgeCommand{as, all}, nil
	case form.Reap:
		due, err := form.ParseReap(command)
		if err != nil {
			return nil, fmt.Errorf("reap: %w", err)
		}
		as.Weight = 0
		for _, one := range due {
			as.Weight += tree.RemovalWeight(one.Path)
		}
		return reapCommand{as, due}, nil
	case form.Other:
	}
	return nil, nil //nolint:nilnil // it is for another reader
}

// treeStep is the part of a step that is about the tree.
type treeStep struct {
	// clocks are the leader's when it put the entry together (D3).
	clocks Clocks
	// position is that of the newest command or ended session (D2 of the tree).
	position int
	changes  []tree.Change
	wrote    []Wrote
}

// enter takes the position of a command. It reports false if the entry has no positions left for the command and the
// sessions that it may end: then the command changes nothing (D2 of the tree).
func (s *step) enter(c session.Command) bool {
	most := 1
	if c, ok := c.(session.CloseSessions); ok {
		most += len(c.Sessions)
	}
	if s.tree.position+most > tree.MaxPosition {
		return false
	}
	s.tree.position++
	return true
}

// full returns the result of a command that found no position. Proposers end an entry long before that (U2).
func (s *step) full(c session.Command, r session.Result) session.Result {
	r.Err = &session.LimitError{Name: "positions_per_entry", Limit: "65535", RetryAfter: session.BusyRetryAfter}
	switch c := c.(type) {
	case session.CloseSessions:
		r.Closed, r.Err = make([]bool, len(c.Sessions)), nil // they are left alone, and closed again
	case session.MoveSessions:
		r.Moved = make([]session.MoveResult, len(c.Sessions))
		for i := range r.Moved {
			r.Moved[i].Err = r.Err
		}
	case writeCommand:
		s.tree.wrote = append(s.tree.wrote, Wrote{
			Session: session.ID(c.Session), Attachment: c.Attachment, Number: c.Number, At: s.stamp(), Err: r.Err,
		})
	}
	return r
}

// at returns when the command, or the end of the session, at the present position happens.
func (s *step) at() store.At {
	return store.At{Stamp: tree.StampAt(s.index, s.tree.position), L: s.space.time.Log, MS: s.tree.clocks.WallMS}
}

// stamp returns the stamp of what happens now.
func (s *step) stamp() tree.Stamp { return tree.StampAt(s.index, s.tree.position) }

// applyTree applies one of the tree's commands.
func (s *step) applyTree(c session.Command) error {
	switch c := c.(type) {
	case writeCommand:
		return s.write(&c.NumberedWrite)
	case acknowledgeCommand:
		for _, one := range c.all {
			s.space.writers.Acknowledge(one.Session, one.UpTo)
		}
	case reapCommand:
		for _, one := range c.due {
			_, changes := s.space.tree.Reap(s.at(), one)
			s.tree.changes = append(s.tree.changes, changes...)
		}
	}
	return nil
}

// write decides on a write and carries it out (W2, X2). The leader does not hear of the outcome, but the node that
// serves the session does (W4).
func (s *step) write(w *tree.NumberedWrite) error {
	wrote := Wrote{
		Session: session.ID(w.Session), Attachment: w.Attachment, Number: w.Number,
		At: tree.StampAt(s.index, s.tree.position),
	}
	wrote.Result, wrote.Err = s.decide(w)
	s.tree.wrote = append(s.tree.wrote, wrote)
	return wrote.Err
}

// decide returns the kept result of a write, or why there is none.
func (s *step) decide(w *tree.NumberedWrite) ([]byte, error) {
	if err := s.mayWrite(w); err != nil {
		return nil, err
	}
	switch verdict, kept := s.space.writers.Take(w.Session, w.Number, w.Acked); verdict {
	case writers.Apply:
		principal := tree.ShareOf(w.Principals)
		if w.Void { // it has no principals
			principal = s.space.writers.Principal(w.Session)
		} else if !s.space.writers.Fits(principal, form.MostResult(w.Transaction)) {
			return nil, &tree.WindowError{Limit: windowLimit}
		}
		result := form.AppendResult(nil, s.carryOut(w, principal))
		s.space.writers.Keep(w.Session, w.Number, principal, result)
		return result, nil
	case writers.Repeat:
		return kept, nil
	case writers.Unknown:
		return nil, fmt.Errorf("%w: the result of write %d is gone", session.ErrOutcomeUnknown, w.Number)
	case writers.Gap:
		now, _ := s.space.writers.Writer(w.Session)
		return nil, &tree.GapError{Expected: now.Applied + 1}
	case writers.Window:
		return nil, &tree.WindowError{Limit: windowLimit}
	default:
		panic("fsm: a write without a verdict: " + verdict.String())
	}
}

const windowLimit = "256 results or 64 KiB of a session; 1 KiB, and 16 KiB in one result, while the results of its " +
	"client's sessions are above their share of 128 MiB"

// mayWrite refuses a write that its session's present client process did not send (W3, X5).
func (s *step) mayWrite(w *tree.NumberedWrite) error {
	now, ok := s.session(session.ID(w.Session))
	switch {
	case !ok:
		return s.expired(session.ID(w.Session))
	case now.attachment != w.Attachment:
		return session.MovedTo(now.session())
	case now.instance == 0:
		return session.ErrNoInstance
	default:
		return nil
	}
}

// carryOut carries a write out under a number that is its own. principal is whose share it takes.
func (s *step) carryOut(w *tree.NumberedWrite, principal string) tree.Result {
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
	outcome, changes := s.space.tree.Do(at, w.Transaction)
	s.tree.changes = append(s.tree.changes, changes...)
	result.Outcome = outcome
	if w.Will == nil || outcome.Refused != nil {
		return result
	}
	if len(will.Data) == 0 {
		s.space.writers.ClearWill(w.Session)
	} else if err := s.space.writers.SetWill(w.Session, principal, will); err != nil {
		panic(fmt.Sprintf("fsm: there was room for a will, and now there is none: %v", err))
	}
	return result
}

// will returns the will that a write sets, in the form that is kept; empty if it has none, or takes one back. The error
// says that there is no room for it.
func (s *step) will(w *tree.NumberedWrite, principal string) (writers.Will, error) {
	if w.Will == nil || len(w.Will.Transaction.Then)+len(w.Will.Transaction.Else) == 0 {
		return writers.Will{}, nil
	}
	data, err := form.AppendWill(nil, tree.KeptWill{Transaction: w.Will.Transaction, Principals: w.Principals})
	if err != nil {
		return writers.Will{}, err
	}
	will := writers.Will{Data: data, OnClose: w.Will.OnClose}
	return will, s.space.writers.CheckWill(w.Session, principal, will)
}

// bequeath ends what hangs on a session, in the entry that ends it (U1, U3). It returns what the certificate tells of
// that, nil for nothing.
func (s *step) bequeath(r *storedSession, cause session.Cause) *session.Left {
	s.tree.position++
	last := s.space.writers.End(uint64(r.id))
	end, will := s.space.tree.CloseSession, last.Will
	if cause != session.CauseClosed { // to its client a session that an operator ends is lost as well
		end = s.space.tree.ExpireSession
	} else if will != nil && !will.OnClose {
		will = nil
	}
	ended, changes := end(s.at(), uint64(r.id), willOf(will))
	s.tree.changes = append(s.tree.changes, changes...)
	left := session.Left{
		Instance: r.instance, Applied: last.Applied, Floor: last.Floor,
		Ephemerals: uint64(ended.Removed + ended.Lingering),
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

// willOf reads a kept will, which [step.will] has written.
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

// tick moves the clocks on to what the leader said when it put the entry together (D3). It ends a freeze that has come
// to its bound (Y3).
func (s *step) tick() { s.space.time = s.space.time.At(s.tree.clocks.Log) }
