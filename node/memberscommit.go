package node

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
)

// changeTimeout bounds how long a change of the members may take to be committed.
const changeTimeout = 10 * time.Second

// change submits a change, and waits until the newest configuration shows it and is committed. Raft answers nobody
// while its disk hangs, so that nobody waits for its future: the end of the log, as of when the change is seen first,
// is not before the change.
func (m *members) change(ctx context.Context, submit func(*raft.Raft), shows func([]raft.Server) bool) error {
	on := m.meetings.consensus.raft
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	submit(on)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var end uint64
	for {
		switch {
		case on.State() != raft.Leader:
			return m.meetings.roster.notLeader()
		case end == 0 && shows(m.meetings.roster.servers()):
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

// committed waits until the newest configuration is committed, for a change that it has already: whoever asked for it
// may have been cut off, and a leader that has lost the others has it in its own log alone.
func (m *members) committed(ctx context.Context) error {
	return m.change(ctx, func(*raft.Raft) {}, func([]raft.Server) bool { return true })
}

// Confirm waits until what Raft's configuration says now is committed, and a round that begins after now is good: this
// node was the leader (J5). See [clientport.Memberships].
func (m *members) Confirm(ctx context.Context) error {
	tracker, on := m.tracker(), m.meetings.consensus.raft
	if tracker == nil {
		return m.meetings.roster.notLeader()
	}
	newest, end := tracker.Newest(), on.LastIndex()
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for tracker.Good() <= newest || on.CommitIndex() < end {
		if m.tracker() != tracker {
			return m.meetings.roster.notLeader()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(session.ErrNoLeader, errors.New("no good round confirms the members"))
		}
	}
	return nil
}
