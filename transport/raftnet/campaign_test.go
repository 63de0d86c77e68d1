package raftnet

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/test/bubble"
	"holdfast/test/sim/simnet"
)

// TestStand gives Raft the order to stand when Raft is ready for it, unless the reason is gone by then. No heartbeat is
// handled between the order and its answer.
func TestStand(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := simnet.New(nil)
		c := NewChecked(NewTransport(layerOn(t, n, "a", 1, nil), time.Second), Checks{Term: func() uint64 { return 1 }})
		yes := func() bool { return true }
		if err := c.Campaign("1", yes); !errors.Is(err, errBusy) {
			t.Errorf("Raft takes nothing: %v", err)
		}
		begun := time.Now()
		soon := func() bool { return time.Since(begun) < 10*time.Millisecond }
		if err := c.Campaign("1", soon); !errors.Is(err, ErrOutdated) || soon() {
			t.Errorf("the reason goes while Raft takes nothing: %v after %v", err, time.Since(begun))
		}
		var under, beats atomic.Bool
		go func() {
			time.Sleep(5 * time.Millisecond)
			rpc := <-c.Consumer()
			order, ok := rpc.Command.(*raft.TimeoutNowRequest)
			if !ok || order.ProtocolVersion != raft.ProtocolVersionMax || string(order.ID) != "1" ||
				string(order.Addr) != "a:1" {
				t.Errorf("Raft was told %+v", rpc.Command)
			}
			under.Store(true)
			time.Sleep(time.Millisecond)
			if beats.Load() {
				t.Error("a heartbeat was handled while Raft stands up")
			}
			under.Store(false)
			rpc.Respond(&raft.TimeoutNowResponse{}, nil)
		}()
		go func() {
			time.Sleep(5*time.Millisecond + time.Millisecond/2)
			if !under.Load() {
				t.Error("the order is not under way: this test shows nothing")
			}
			c.beat.alone(func() { beats.Store(true) }) // as the handler of heartbeats
		}()
		if err := c.Campaign("1", yes); err != nil {
			t.Errorf("stand: %v", err)
		}
		time.Sleep(time.Second)
		if !beats.Load() {
			t.Error("heartbeats wait for ever")
		}
		go func() { rpc := <-c.Consumer(); rpc.Respond(nil, errGarbage) }()
		if err := c.Campaign("1", yes); !errors.Is(err, errGarbage) {
			t.Errorf("Raft refuses: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Campaign("1", yes); err == nil {
			t.Error("it stands after Close")
		}
	})
}
