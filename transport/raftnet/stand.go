package raftnet

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// standWait is how long Raft may take until it has received the order to stand.
	standWait = 100 * time.Millisecond
	// standLook is how often the order is looked at again meanwhile.
	standLook = time.Millisecond
)

var (
	// ErrOutdated says that an order to stand was withdrawn.
	ErrOutdated = errors.New("the reason to stand is gone")
	errBusy     = errors.New("raft did not take the order to stand in time")
)

// beat keeps heartbeats and orders to stand apart. Raft handles a heartbeat on a goroutine of its own, and changes its
// state in two steps when it is told to stand: a heartbeat between the two would make it a follower whose next
// election, however much later, asks for votes without looking whether there is a leader. It is a channel and no mutex,
// because an order waits for Raft.
type beat chan struct{}

// alone runs f while no other f runs.
func (b beat) alone(f func()) {
	b <- struct{}{}
	defer func() { <-b }()
	f()
}

// Stand makes this node's Raft stand for election at once, as the leader's TimeoutNow does when it hands leadership
// over. Raft would take the order in any state and for any term, so current is asked just before Raft takes it, whether
// there is still reason to. The error is [ErrOutdated] when there is not.
func (c *Checked) Stand(self raft.ServerID, current func() bool) error {
	answer := make(chan raft.RPCResponse, 1)
	order := raft.RPC{
		Command: &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(self), Addr: []byte(c.LocalAddr()),
		}},
		RespChan: answer,
	}
	for end := time.Now().Add(standWait); time.Now().Before(end); {
		var done bool
		var err error
		c.beat.alone(func() { done, err = c.offer(order, answer, current) })
		if done {
			return err
		}
	}
	return errBusy
}

// offer gives Raft the order if Raft takes it soon, and waits until Raft has done it. It reports whether that is all.
func (c *Checked) offer(order raft.RPC, answer <-chan raft.RPCResponse, current func() bool) (bool, error) {
	if !current() {
		return true, ErrOutdated
	}
	timer := time.NewTimer(standLook)
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
			return true, fmt.Errorf("raft refused to stand: %w", r.Error)
		}
		return true, nil
	case <-c.done:
		return true, raft.ErrTransportShutdown
	}
}
