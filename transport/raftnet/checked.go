package raftnet

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"golang.org/x/time/rate"
)

const (
	// TermLeap bounds how far the term of a request may be above the newest term that a node knows.
	//
	// Raft accepts any newer term at once, and never goes back to an older one. Without the bound, three requests of an
	// attacker with a term of 2^64 - 2 ended a cluster for good, because no next term was left. With the bound, a
	// request raises a term by at most TermLeap. A node writes each new term to its disk, so the 2^44 requests that
	// would use up all terms take centuries.
	//
	// An honest request exceeds the bound only if a node was cut off from all others for a million elections: 12 days
	// of nothing but elections with the default times, 90 minutes with the smallest. Such a node is not shut out: it
	// learns the term from nodes that it dials itself, which no attacker can influence. Without a leader it campaigns
	// for election, and the answers to its requests for votes carry the term. While it has no vote or no leader it
	// meets the other nodes, whose answers carry the term too ([Checks.Term]).
	//
	// Every bound on requests needs this second way: requests that reached only one of two nodes may raise its term
	// above any bound, and each node would refuse the other for good.
	TermLeap = 1 << 20
	// FarTerm is the highest term that this node accepts in an answer or a handshake from a node that it dialled. Half of
	// all terms are above it.
	FarTerm = 1 << 62
	// maxIndex is the highest index that this node accepts in a message. The indexes of a cluster end earlier, at
	// tree.MaxIndex.
	maxIndex = 1 << 62
)

// Checks are the facts against which messages of other nodes are checked. Several goroutines call the functions, which
// must not wait for Raft.
type Checks struct {
	// Term returns the newest term that this node knows: its own, or a term from a node that it dialled.
	Term func() uint64
	// Command returns an error for an invalid payload of a command; nil accepts any payload.
	Command func(payload []byte) error
	// Saw, if set, is called with the position of a node's directory, from the node's answers to requests of this one.
	Saw    func(Directory, Position)
	Logger hclog.Logger
}

// Checked is Raft's transport with checks: where Raft itself checks nothing, Checked checks messages of other nodes
// before Raft acts on them. It answers an invalid request with an error, and returns an error for an invalid answer.
type Checked struct {
	*Transport
	checks Checks
	out    chan raft.RPC
	logged rate.Sometimes
	beat   beat
	// followed is the newest term of a leader whose request Raft's main goroutine has received.
	followed atomic.Uint64

	done    chan struct{}
	ending  sync.Once
	forward sync.WaitGroup
}

var (
	_ raft.Transport   = (*Checked)(nil)
	_ raft.WithPreVote = (*Checked)(nil)
	_ raft.WithClose   = (*Checked)(nil)
)

// NewChecked wraps transport, and starts a goroutine that Close ends.
func NewChecked(transport *Transport, checks Checks) *Checked {
	if checks.Logger == nil {
		checks.Logger = hclog.NewNullLogger()
	}
	c := &Checked{
		Transport: transport,
		checks:    checks,
		out:       make(chan raft.RPC),
		logged:    rate.Sometimes{Interval: refusalLogInterval},
		beat:      make(beat, 1),
		done:      make(chan struct{}),
	}
	c.forward.Go(c.run)
	return c
}

// Close closes the transport, and waits for its goroutine.
func (c *Checked) Close() error {
	err := c.Transport.Close()
	c.ending.Do(func() { close(c.done) })
	c.forward.Wait()
	return err
}

// Consumer returns the valid requests.
func (c *Checked) Consumer() <-chan raft.RPC { return c.out }

func (c *Checked) run() {
	for {
		select {
		case rpc := <-c.Transport.Consumer():
			if !c.refused(rpc) {
				c.pass(rpc)
			}
		case <-c.done:
			return
		}
	}
}

// pass waits until Raft's main goroutine receives a valid request.
func (c *Checked) pass(rpc raft.RPC) {
	select {
	case c.out <- rpc:
	case <-c.done:
		return
	}
	if r, ok := rpc.Command.(*raft.AppendEntriesRequest); ok {
		for now := c.followed.Load(); now < r.Term && !c.followed.CompareAndSwap(now, r.Term); {
			now = c.followed.Load()
		}
	}
}

// SetHeartbeatHandler sets the handler of valid heartbeats. Raft handles heartbeats outside its main goroutine. Checked
// sends the first heartbeat of a term to Raft's main goroutine: otherwise the main goroutine of a deposed leader would
// not notice that it no longer leads, and would write the next command as an entry of the *other* leader's term
// (test/raft has the trap).
func (c *Checked) SetHeartbeatHandler(handle func(raft.RPC)) {
	c.Transport.SetHeartbeatHandler(func(rpc raft.RPC) {
		if c.refused(rpc) {
			return
		}
		if r, ok := rpc.Command.(*raft.AppendEntriesRequest); ok && r.Term > c.followed.Load() {
			c.pass(rpc)
			return
		}
		c.beat.alone(func() { handle(rpc) })
	})
}

// refused answers an invalid request with an error, and reports whether it did.
func (c *Checked) refused(rpc raft.RPC) bool {
	err := c.request(rpc.Command)
	if err != nil {
		err = fmt.Errorf("refused: %w", err)
		c.logRefused(rpc.Command, err)
		rpc.Respond(nil, err)
	}
	return err != nil
}

func (c *Checked) logRefused(message any, err error) {
	var from raft.RPCHeader
	if m, ok := message.(raft.WithRPCHeader); ok {
		from = m.GetRPCHeader()
	}
	c.logged.Do(func() {
		c.checks.Logger.Warn("raft message refused", "from", string(from.ID), "message", fmt.Sprintf("%T", message),
			"error", err)
	})
}

// AppendEntries asks a follower to append entries.
func (c *Checked) AppendEntries(id raft.ServerID, at raft.ServerAddress, r *raft.AppendEntriesRequest,
	a *raft.AppendEntriesResponse,
) error {
	err := c.Transport.AppendEntries(id, at, r, a)
	c.saw(err == nil && a.Success, at, PositionIn(r.Term, r.PrevLogEntry+uint64(len(r.Entries)), lastTerm(r)))
	return c.answered(err, a, a.Term)
}

// RequestVote asks for a vote.
func (c *Checked) RequestVote(id raft.ServerID, at raft.ServerAddress, r *raft.RequestVoteRequest,
	a *raft.RequestVoteResponse,
) error {
	err := c.Transport.RequestVote(id, at, r, a)
	c.saw(err == nil && a.Granted, at, Position{Term: r.Term})
	return c.answered(err, a, a.Term)
}

// RequestPreVote asks whether a node would vote.
func (c *Checked) RequestPreVote(id raft.ServerID, at raft.ServerAddress, r *raft.RequestPreVoteRequest,
	a *raft.RequestPreVoteResponse,
) error {
	err := c.Transport.RequestPreVote(id, at, r, a)
	return c.answered(err, a, a.Term)
}

// InstallSnapshot sends a follower a snapshot.
func (c *Checked) InstallSnapshot(id raft.ServerID, at raft.ServerAddress, r *raft.InstallSnapshotRequest,
	a *raft.InstallSnapshotResponse, data io.Reader,
) error {
	err := c.Transport.InstallSnapshot(id, at, r, a, data)
	c.saw(err == nil && a.Success, at, PositionIn(r.Term, r.LastLogIndex, r.LastLogTerm))
	return c.answered(err, a, a.Term)
}

// saw records the position of a node that has answered yes. Raft's address of the node names the directory, and the
// greeting has proven it.
func (c *Checked) saw(yes bool, node raft.ServerAddress, at Position) { //nolint:revive // flag-parameter: an answer
	if !yes || c.checks.Saw == nil {
		return
	}
	if _, d, err := Split(node); err == nil && d != 0 {
		c.checks.Saw(d, at)
	}
}

// answered returns an error for an invalid answer. An answer comes from a node that this node dialled, at an address of
// its own configuration, so its term may be any up to FarTerm.
func (c *Checked) answered(err error, answer any, term uint64) error {
	if err != nil || term <= FarTerm {
		return err
	}
	if err = c.leap(term); err != nil {
		err = fmt.Errorf("answer refused: %w", err)
		c.logRefused(answer, err)
	}
	return err
}

// request returns an error for an invalid request.
func (c *Checked) request(command any) error {
	switch r := command.(type) {
	case *raft.AppendEntriesRequest:
		return errors.Join(c.leap(r.Term), c.entries(r))
	case *raft.RequestVoteRequest:
		return errors.Join(c.leap(r.Term), candidate(r.Term, r.LastLogIndex, r.LastLogTerm))
	case *raft.RequestPreVoteRequest:
		return errors.Join(c.leap(r.Term), candidate(r.Term, r.LastLogIndex, r.LastLogTerm))
	case *raft.InstallSnapshotRequest:
		return errors.Join(c.leap(r.Term), installs(r))
	}
	return nil // a TimeoutNow names only its sender
}

// leap returns an error for a term too far above the newest term that this node knows.
func (c *Checked) leap(term uint64) error {
	if known := c.checks.Term(); term > known && term-known > TermLeap {
		return &malformed{
			what: fmt.Sprintf("term above the newest that this node knows of, %d,", known),
			got:  term - known, limit: TermLeap,
		}
	}
	return nil
}

// candidate returns an error for an invalid log of a candidate: the term of its election must be above all terms in its
// log.
func candidate(term, index, last uint64) error {
	switch {
	case last >= term && term > 0:
		return &malformed{"term of the candidate's last entry", last, term - 1}
	case index > maxIndex:
		return &malformed{"index of the candidate's last entry", index, maxIndex}
	}
	return nil
}

// entries returns an error for invalid entries of a request. The entries must follow each other and the entry before
// them. Raft checks for no entry before the first of a log, and would store an entry with any index there.
func (c *Checked) entries(r *raft.AppendEntriesRequest) error {
	switch {
	case r.PrevLogTerm > r.Term:
		return &malformed{"term of the entry before", r.PrevLogTerm, r.Term}
	case r.PrevLogEntry > maxIndex:
		return &malformed{"index of the entry before", r.PrevLogEntry, maxIndex}
	case r.LeaderCommitIndex > maxIndex:
		return &malformed{"index of the commit", r.LeaderCommitIndex, maxIndex}
	}
	index, term := r.PrevLogEntry, r.PrevLogTerm
	for _, e := range r.Entries {
		if e == nil {
			return &malformed{what: fmt.Sprintf("no entry at number %d", index+1)}
		}
		if e.Index != index+1 || e.Term < term || e.Term > r.Term {
			return &malformed{
				what: fmt.Sprintf("entry %d of term %d behind entry %d of term %d, in a request of term %d", e.Index,
					e.Term, index, term, r.Term),
			}
		}
		index, term = e.Index, e.Term
		if err := c.entry(e); err != nil {
			return fmt.Errorf("entry %d of term %d: %w", e.Index, e.Term, err)
		}
	}
	return nil
}

// entry returns an error for an invalid entry. Raft panics at an unknown type, and at a configuration that it cannot
// decode.
func (c *Checked) entry(e *raft.Log) error {
	switch e.Type {
	case raft.LogCommand:
		if c.checks.Command != nil {
			return c.checks.Command(e.Data)
		}
		return nil
	case raft.LogNoop, raft.LogBarrier:
		return nil
	case raft.LogConfiguration:
		return checkConfiguration(e.Data)
	case raft.LogAddPeerDeprecated, raft.LogRemovePeerDeprecated: // only in older protocols
	}
	return &malformed{what: fmt.Sprintf("an entry of type %d", e.Type)}
}

// installs returns an error for an invalid request to install a snapshot. Raft panics at a configuration that it cannot
// decode.
func installs(r *raft.InstallSnapshotRequest) error {
	switch {
	case r.SnapshotVersion < raft.SnapshotVersionMax:
		return &malformed{what: fmt.Sprintf("a snapshot of version %d", r.SnapshotVersion)}
	case r.LastLogTerm > r.Term:
		return &malformed{"term of the snapshot", r.LastLogTerm, r.Term}
	case r.LastLogIndex > maxIndex:
		return &malformed{"index of the snapshot", r.LastLogIndex, maxIndex}
	case r.ConfigurationIndex > r.LastLogIndex:
		return &malformed{"index of the snapshot's configuration", r.ConfigurationIndex, r.LastLogIndex}
	}
	return checkConfiguration(r.Configuration)
}

// checkConfiguration returns an error for an invalid encoded configuration. The scanner checks it first, as it checks
// messages, because the same decoder reads it.
func checkConfiguration(b []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &malformed{what: fmt.Sprintf("a configuration: %v", p)}
		}
	}()
	var s scanner
	if n, err := s.pass(b); err != nil || n < len(b) || s.depth > 0 || s.have > 0 || s.body > 0 {
		return &malformed{what: fmt.Sprintf("a configuration of %d bytes that is no message", len(b))}
	}
	voters := 0
	ids, addresses := map[raft.ServerID]bool{}, map[raft.ServerAddress]bool{}
	for _, s := range raft.DecodeConfiguration(b).Servers {
		if s.ID == "" || s.Address == "" || ids[s.ID] || addresses[s.Address] {
			return &malformed{what: fmt.Sprintf("a configuration with server %q at %q, without a name or twice", s.ID,
				s.Address)}
		}
		ids[s.ID], addresses[s.Address] = true, true
		if s.Suffrage == raft.Voter {
			voters++
		}
	}
	if voters == 0 {
		return &malformed{what: "a configuration without a voter"}
	}
	return nil
}
