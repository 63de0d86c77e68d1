package raft_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm/proposer"
	"holdfast/session"
	"holdfast/test/bubble"
)

// Apply's timeout covers only the way into Raft's queue. A leader whose disk hangs stays leader for ever (raft#503,
// #666), and its future is not answered. The proposer answers by a deadline of its own. Package node tests that the
// node then steps out (TestALeaderWhoseDiskHangs).
func TestAnEntryOnAHungDiskIsAnswered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, options{peers: 3})
		defer c.stop()
		leads := c.leader()
		const timeout = 2 * time.Second
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		commands := proposer.New(proposer.Config{Logger: hclog.NewNullLogger(), Timeout: timeout}, leads.Raft)
		go func() { ended <- commands.Run(ctx) }()
		hung := make(chan struct{})
		leads.logs.onWrite(func([]*raft.Log) error {
			<-hung
			return nil
		})
		future := leads.Apply(payload(t, 1), timeout)
		answered := make(chan error, 1)
		go func() { answered <- future.Error() }()

		begun := time.Now()
		_, err := commands.Propose(ctx, open(2))
		if took := time.Since(begun); !errors.Is(err, session.ErrOutcomeUnknown) && !errors.Is(err,
			session.ErrNoLeader) || took > timeout {
			t.Errorf("the proposer answered after %v with %v", took, err)
		}
		time.Sleep(10 * time.Second)
		select {
		case err := <-answered:
			t.Errorf("Raft's future was answered with %v: the trap is gone", err)
		default:
		}
		if leads.State() != raft.Leader {
			t.Errorf("the leader is a %v: the trap is gone", leads.State())
		}
		close(hung)
		<-answered
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
