package members

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/leader"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// changeTimeout bounds how long a change of the members may take to be committed.
const changeTimeout = 10 * time.Second

// Operator changes the members for operators, on the node that leads (J). It implements [clientport.Memberships]. Safe
// for concurrent use.
type Operator struct {
	cfg OperatorConfig
	// turn is held by whoever decides about the members: the facts of a decision must not change before the decision is
	// in the log. Raft's own compare-and-set does not help, because Raft (v1.7.3) does not tell the index of the
	// configuration.
	turn chan struct{}
}

// OperatorConfig is what Operator needs of the rest of the node.
type OperatorConfig struct {
	Logger     hclog.Logger
	Interval   time.Duration
	Pulse      session.Pulse
	Membership *Membership
	Admission  *Admission
	Exchange   *Exchange
	Transfer   Transfer
	// DrainTimeout is the setting drain_timeout: how long a node that is being removed may take to move its clients.
	DrainTimeout time.Duration
	// Term returns the term that this node leads, nil while it leads none.
	Term func() Term
	// Propose puts a command into the log.
	Propose func(context.Context, session.Command) (session.Result, error)
}

// NewOperator returns the operator of a node.
func NewOperator(cfg OperatorConfig) *Operator {
	return &Operator{cfg: cfg, turn: make(chan struct{}, 1)}
}

// lead takes the turn, and returns the term that this node leads then: the term before may have ended while another
// request had the turn. The caller gives the turn back unless there is an error, which is a [session.NotLeaderError] or
// that of ctx.
func (o *Operator) lead(ctx context.Context) (Term, error) {
	if o.cfg.Term() == nil {
		return nil, o.cfg.Membership.notLeader()
	}
	if err := o.takeTurn(ctx); err != nil {
		return nil, err
	}
	term := o.cfg.Term()
	if term == nil {
		o.giveTurn()
		return nil, o.cfg.Membership.notLeader()
	}
	return term, nil
}

// takeTurn waits for the turn. It does not take the turn once ctx has ended, as ctx ends with the leader's term.
func (o *Operator) takeTurn(ctx context.Context) error {
	select {
	case o.turn <- struct{}{}:
		if ctx.Err() != nil {
			o.giveTurn()
		}
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (o *Operator) giveTurn() { <-o.turn }

func refusal(node session.Node, cause session.MemberCause, format string, args ...any) error {
	return &session.MemberRefusedError{Node: node, Cause: cause, Why: fmt.Sprintf(format, args...)}
}

// Add adds a node that runs and waits at an address, as an observer (J2 add, promote, demote).
func (o *Operator) Add(ctx context.Context, at session.MemberPlace) error {
	p := config.Peer{Node: at.Node, Raft: at.Raft, Peer: at.Peer, Client: at.Client}
	if err := p.Check(); err != nil {
		return err
	}
	if _, err := o.lead(ctx); err != nil {
		return err
	}
	defer o.giveTurn()
	m := o.cfg.Membership
	if s, found := Find(m.Servers(), p.Node); found {
		if err := m.checkRepeatedAdd(s, p); err != nil {
			return err
		}
		if err := o.checkSameDirectory(ctx, p); err != nil {
			return err
		}
		return o.awaitCommit(ctx)
	}
	if m.WasRemoved(p.Node) {
		return refusal(p.Node, session.MemberUsedUp, "a node of this number was removed: give the new node a number that no "+
			"node has had")
	}
	for _, other := range m.Members() {
		if p.Raft == other.Raft || p.Peer == other.Peer || p.Client == other.Client {
			return refusal(p.Node, session.MemberKnown, "node %d has one of its addresses", other.Node)
		}
	}
	m.joining.Store(uint32(p.Node))
	defer m.joining.Store(0)
	directory, err := o.directoryAt(ctx, p)
	if err != nil {
		return err
	}
	id, address := raftnet.ServerID(p.Node, directory), addressOf(p, directory, DesiredObserver)
	o.cfg.Logger.Warn("an operator adds a node, without a vote", "node", p.Node, "directory", directory)
	return o.change(ctx, func(on *raft.Raft) { on.AddNonvoter(id, address, 0, changeTimeout) },
		func(now []raft.Server) bool {
			s, found := Find(now, p.Node)
			return found && s.ID == id
		})
}

// checkRepeatedAdd returns nil if a member is what an operator wants to add: the request is a repeat.
func (m *Membership) checkRepeatedAdd(s raft.Server, p config.Peer) error {
	switch known := m.PeerOf(p.Node); {
	case known != p:
		return refusal(p.Node, session.MemberKnown, "a member has this number, at %s", RaftAddress(s))
	case DesiredOf(s) == DesiredRemoved:
		return refusal(p.Node, session.MemberLeaving, "it is being removed")
	}
	return nil
}

// checkSameDirectory returns a refusal if the node at an address runs on another data directory than the member of its
// number, and no leader replaces the member's directory. A node that does not answer counts as unchanged.
func (o *Operator) checkSameDirectory(ctx context.Context, p config.Peer) error {
	met, _, err := o.cfg.Exchange.ask(ctx, p)
	if err != nil || met.Node != p.Node || met.Directory == 0 || !o.cfg.Membership.keepsDirectory(p.Node, met.Directory) {
		return nil //nolint:nilerr // see above
	}
	return refusal(p.Node, session.MemberKnown, "it is a member on another data directory, which the node at %s has "+
		"lost: remove it, and start a new node with a number that no node has had", p.Raft)
}

// directoryAt asks the node at an address, and returns its directory.
func (o *Operator) directoryAt(ctx context.Context, p config.Peer) (raftnet.Directory, error) {
	met, _, err := o.cfg.Exchange.ask(ctx, p)
	if err != nil {
		return 0, refusal(p.Node, session.MemberSilent, "it cannot be reached at %s: %v; start it on an empty data "+
			"directory, with itself and all members in its peers", p.Raft, err)
	}
	if met.Node != p.Node || met.Directory == 0 {
		return 0, refusal(p.Node, session.MemberForeign, "at %s is node %d", p.Raft, met.Node)
	}
	var answer peerInfo
	if err := json.Unmarshal(met.Answer, &answer); err != nil {
		return 0, refusal(p.Node, session.MemberForeign, "it answers nothing that this node understands")
	}
	if answer.Admitted && !o.cfg.Admission.isFoundedBy(answer.Names) {
		return 0, refusal(p.Node, session.MemberForeign, "its data directory belongs to another cluster: start it on "+
			"an empty one")
	}
	return met.Directory, nil
}

// Promote gives an observer its vote, once it has caught up (J2).
func (o *Operator) Promote(ctx context.Context, node session.Node) error {
	return o.setDesired(ctx, node, DesiredVoter, func(t Term, s raft.Server) (bool, error) {
		if s.Suffrage == raft.Voter {
			return DesiredOf(s) != DesiredVoter, nil
		}
		return DesiredOf(s) != DesiredVoter, o.awaitQuorum(ctx, t, 0, node)
	})
}

// Demote takes the vote of a member (J2).
func (o *Operator) Demote(ctx context.Context, node session.Node) error {
	return o.setDesired(ctx, node, DesiredObserver, func(t Term, s raft.Server) (bool, error) {
		if DesiredOf(s) == DesiredObserver {
			return false, nil
		}
		if s.Suffrage != raft.Voter {
			return true, nil
		}
		return true, o.awaitQuorum(ctx, t, node, 0)
	})
}

// Remove begins to remove a member for good (J3 removal).
func (o *Operator) Remove(ctx context.Context, node session.Node) error {
	err := o.setDesired(ctx, node, DesiredRemoved, func(t Term, s raft.Server) (bool, error) {
		if s.Suffrage != raft.Voter {
			return true, nil
		}
		return true, o.awaitQuorum(ctx, t, node, 0)
	})
	if why, ok := errors.AsType[*session.MemberRefusedError](err); ok &&
		(why.Cause == session.MemberLeaving || why.Cause == session.MemberUsedUp) {
		return o.awaitCommit(ctx) // the removal has begun, or is done
	}
	return err
}

// setDesired marks a member with its desired state. check says whether anything has to change, or why it must not.
func (o *Operator) setDesired(ctx context.Context, node session.Node, d Desired,
	check func(Term, raft.Server) (bool, error),
) error {
	term, err := o.lead(ctx)
	if err != nil {
		return err
	}
	defer o.giveTurn()
	m := o.cfg.Membership
	s, found := Find(m.Servers(), node)
	switch {
	case !found && m.WasRemoved(node):
		return refusal(node, session.MemberUsedUp, "it was removed for good")
	case !found:
		return refusal(node, session.MemberUnknown, "no member has this number")
	case DesiredOf(s) == DesiredRemoved:
		return refusal(node, session.MemberLeaving, "it is being removed")
	}
	changes, err := check(term, s)
	switch {
	case err != nil:
		return err
	case !changes:
		return o.awaitCommit(ctx)
	}
	o.cfg.Logger.Warn("an operator changes a member", "node", node, "wants", d.String(), "voter", s.Suffrage == raft.Voter)
	address := withDesired(s.Address, d)
	return o.change(ctx, func(on *raft.Raft) {
		if s.Suffrage == raft.Voter {
			on.AddVoter(s.ID, address, 0, changeTimeout)
		} else {
			on.AddNonvoter(s.ID, address, 0, changeTimeout)
		}
	}, func(now []raft.Server) bool {
		s, found := Find(now, node)
		return found && DesiredOf(s) == d
	})
}

// change submits a change, and waits until the newest configuration shows it and is committed. Raft does not answer the
// future of a change while its disk hangs. So change does not wait for the future: the end of the log at the moment
// when the configuration first shows the change is not before the change.
func (o *Operator) change(ctx context.Context, submit func(*raft.Raft), shows func([]raft.Server) bool) error {
	on := o.cfg.Membership.Raft()
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	submit(on)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var end uint64
	for {
		switch {
		case on.State() != raft.Leader:
			return o.cfg.Membership.notLeader()
		case end == 0 && shows(o.cfg.Membership.Servers()):
			end = on.LastIndex()
		}
		if end > 0 && on.CommitIndex() >= end {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(session.ErrOutcomeUnknown, errors.New("the change of the members is not committed yet"))
		}
	}
}

// awaitCommit waits until the newest configuration is committed. A repeated request finds its change in the
// configuration already: the first request may have been cut off, and a leader that has lost the other nodes has the
// change in its own log alone.
func (o *Operator) awaitCommit(ctx context.Context) error {
	return o.change(ctx, func(*raft.Raft) {}, func([]raft.Server) bool { return true })
}

// Confirm waits until what Raft's configuration says now is committed, and a round that begins after now is good: this
// node was the leader (J5 the leader's list).
func (o *Operator) Confirm(ctx context.Context) error {
	term, on := o.cfg.Term(), o.cfg.Membership.Raft()
	if term == nil {
		return o.cfg.Membership.notLeader()
	}
	newest, end := term.Newest(), on.LastIndex()
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for term.Good() <= newest || on.CommitIndex() < end {
		if o.cfg.Term() != term {
			return o.cfg.Membership.notLeader()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(session.ErrNoLeader, errors.New("no good round confirms the members"))
		}
	}
	return nil
}

// Transfer transfers leadership to a voter, any if node is 0.
func (o *Operator) Transfer(ctx context.Context, node session.Node) error {
	term, m := o.cfg.Term(), o.cfg.Membership
	switch {
	case term == nil && node != 0 && m.leads(node):
		return nil // a repeat
	case term == nil:
		return m.notLeader()
	case node == 0:
		return transferred(o.cfg.Transfer.ToAny(ctx), node)
	case node == m.self:
		return nil
	}
	to, votes := o.cfg.Transfer.Voters()[node]
	if !votes {
		return refusal(node, session.MemberUnknown, "no voter has this number")
	}
	if DesiredOf(to) != DesiredVoter {
		return refusal(node, session.MemberLeaving, "it is to lose its vote")
	}
	if !slices.ContainsFunc(term.Peers(), func(p leader.Peer) bool { return p.Node == node && p.Responsive }) {
		return refusal(node, session.MemberSilent, "it does not respond")
	}
	return transferred(o.cfg.Transfer.ToServer(ctx, to), node)
}

// transferred returns the outcome of a transfer for an operator.
func transferred(err error, node session.Node) error {
	switch {
	case errors.Is(err, session.ErrNoOtherVoter):
		return refusal(node, session.MemberQuorum, "no other node votes")
	case errors.Is(err, session.ErrTransferTimeout):
		return refusal(node, session.MemberSilent, "it did not take over in time")
	}
	return err
}
