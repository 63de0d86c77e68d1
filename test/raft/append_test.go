package raft_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/test/bubble"
	"holdfast/transport/raftnet"
)

// bursts is how often the follower fails in the middle of a burst of entries. With pipelining, each failure has a
// chance of about one half to stop the follower for good.
const bursts = 30

// raft#612: a follower whose append failed once catches up soon, each time. With Raft's own default, which pipelines,
// the same follower stops for good while its heartbeats stay healthy.
func TestAFollowerThatAnsweredFalseCatchesUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var pipelines openPipelines // an open pipeline would make the end hang instead of fail
		c := start(t, options{peers: 3, transport: func(l *raftnet.Layer) wire {
			return &pipelining{raftnet.NewTransport(l, transportTimeout).NetworkTransport, &pipelines}
		}})
		defer c.stop()
		defer pipelines.close()
		failed, behind := burst(t, c, 200*time.Millisecond)
		if failed < bursts || behind != "" {
			t.Errorf("after %d failed appends %s", failed, behind)
		}
	})
}

func TestControlPipeliningStopsAFollower(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var pipelines openPipelines
		c := start(t, options{peers: 3, transport: func(l *raftnet.Layer) wire {
			return &pipelining{raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
				Stream: l, MaxPool: 3, Timeout: transportTimeout, Logger: hclog.NewNullLogger(),
			}), &pipelines}
		}})
		defer c.stop()
		defer pipelines.close() // a goroutine that hangs in a pipeline never ends by itself
		leads := c.leader()
		failed, behind := burst(t, c, time.Minute)
		if behind == "" {
			t.Fatalf(
				"no follower stopped in %d failed appends: the trap is gone, and so is the reason for MaxRPCsInFlight",
				failed,
			)
		}
		if leads.State() != raft.Leader {
			t.Error("the leader stepped down: that is another trap")
		}
		for _, p := range c.others(leads) {
			if since := time.Since(p.LastContact()); p.State() != raft.Follower || since > electionTimeout {
				t.Errorf("%s is %v and last heard its leader %v ago: that is another trap", p.name, p.State(), since)
			}
		}
		t.Logf("failed appends: %d; then %s", failed, behind)
	})
}

// burst applies bursts of entries; in each burst one write of one follower fails. It returns the number of failures,
// and which follower did not catch up in time after a burst.
func burst(t *testing.T, c *cluster, within time.Duration) (failed int, behind string) {
	t.Helper()
	leads := c.leader()
	victim := c.others(leads)[0]
	var mu sync.Mutex
	fail := false
	victim.logs.onWrite(func([]*raft.Log) error {
		time.Sleep(5 * time.Millisecond) // time of a disk, in which the leader sends more
		mu.Lock()
		defer mu.Unlock()
		if !fail {
			return nil
		}
		fail = false
		failed++
		return errors.New("planned failure of one append")
	})
	n := uint64(0)
	for range bursts {
		mu.Lock()
		fail = true
		mu.Unlock()
		var last raft.ApplyFuture
		for range 30 {
			n++
			last = leads.Apply(payload(t, n), time.Second)
			time.Sleep(time.Millisecond)
		}
		if err := last.Error(); err != nil {
			t.Fatalf("apply: %v", err)
		}
		begun := time.Now()
		for victim.LastIndex() < leads.LastIndex() {
			if time.Since(begun) > within {
				return failed, victim.name + " did not catch up"
			}
			time.Sleep(time.Millisecond)
		}
	}
	return failed, ""
}

// pipelining is Raft's unchanged transport. It records its pipelines.
type pipelining struct {
	*raft.NetworkTransport
	open *openPipelines
}

func (p *pipelining) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	one, err := p.NetworkTransport.AppendEntriesPipeline(id, target)
	if err == nil {
		p.open.add(one)
	}
	return one, err
}

type openPipelines struct {
	mu  sync.Mutex
	all []raft.AppendPipeline
}

func (o *openPipelines) add(p raft.AppendPipeline) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, p)
}

func (o *openPipelines) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.all {
		_ = p.Close()
	}
}
