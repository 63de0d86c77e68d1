package raftnet

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// campaignTimeout is the time limit for Raft to receive the order to campaign.
	campaignTimeout = 100 * time.Millisecond
	// campaignInterval is the interval at which the order is checked again meanwhile.
	campaignInterval = time.Millisecond
)

var (
	// ErrOutdated says that an order to campaign was withdrawn.
	ErrOutdated = errors.New("the reason to campaign is gone")
	errBusy     = errors.New("raft did not accept the order to campaign in time")
)

// beat separates heartbeats and orders to campaign. Raft handles a heartbeat on a goroutine of its own, and changes its
// state in two steps for an order to campaign. A heartbeat between the two would make it a follower whose next
// election, however much later, asks for votes without checking whether there is a leader. beat is a channel instead of
// a mutex, because an order waits for Raft.
type beat chan struct{}

// alone runs f while no other f runs.
func (b beat) alone(f func()) {
	b <- struct{}{}
	defer func() { <-b }()
	f()
}

// Campaign makes this node's Raft campaign at once, as the leader's TimeoutNow does in a transfer of
// leadership. Raft would accept the order in any state and for any term, so Campaign calls current just before Raft
// receives the order, to check that the reason still exists. The error is [ErrOutdated] when it does not.
func (c *Checked) Campaign(self raft.ServerID, current func() bool) error {
	answer := make(chan raft.RPCResponse, 1)
	order := raft.RPC{
		Command: &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(self), Addr: []byte(c.LocalAddr()),
		}},
		RespChan: answer,
	}
	for end := time.Now().Add(campaignTimeout); time.Now().Before(end); {
		var done bool
		var err error
		c.beat.alone(func() { done, err = c.offer(order, answer, current) })
		if done {
			return err
		}
	}
	return errBusy
}

// offer passes the order to Raft if Raft receives it soon, and waits until Raft has carried it out. It reports whether
// Campaign is done.
func (c *Checked) offer(order raft.RPC, answer <-chan raft.RPCResponse, current func() bool) (bool, error) {
	if !current() {
		return true, ErrOutdated
	}
	timer := time.NewTimer(campaignInterval)
	defer timer.Stop()
	select {
	case c.out <- order:
	case <-timer.C:
		return false, nil
	case <-c.done:
		return true, raft.ErrTransportShutdown
	}
	select {
	case r := <-answer:
		if r.Error != nil {
			return true, fmt.Errorf("raft refused to campaign: %w", r.Error)
		}
		return true, nil
	case <-c.done:
		return true, raft.ErrTransportShutdown
	}
}
