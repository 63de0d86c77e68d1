package fsm

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm/proposer"
	"holdfast/session"
	"holdfast/test/bubble"
)

// With a real State behind the Proposer, each caller gets the result of its own command.
func TestProposerOnAState(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newReplica()
		p := proposer.New(proposer.Config{Logger: hclog.NewNullLogger()}, slowRaft{r, t, time.Millisecond})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := p.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		const callers = 100
		ids := make(chan session.ID, callers)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				result, err := p.Propose(t.Context(), opening(byte(i+1)))
				if err != nil || result.Err != nil {
					t.Errorf("Propose = %v, %v", err, result.Err)
				}
				ids <- result.Session.ID
			})
		}
		all.Wait()
		close(ids)
		seen := map[session.ID]bool{}
		for id := range ids {
			seen[id] = true
		}
		if len(seen) != callers || r.Sessions() != callers {
			t.Errorf("%d callers got %d sessions of %d, want one each", callers, len(seen), r.Sessions())
		}
		if got := p.Stats(); got.Entries > 2 {
			t.Errorf("%d concurrent commands took %d entries, want 2", callers, got.Entries)
		}
		stop()
		running.Wait()
	})
}

// slowRaft takes as long to commit an entry as a disk takes to sync.
type slowRaft struct {
	*replica
	t     testing.TB
	fsync time.Duration
}

type doneFuture struct {
	raft.ApplyFuture

	response any
}

func (f doneFuture) Error() error { return nil }

func (f doneFuture) Response() any { return f.response }

func (r slowRaft) Apply(data []byte, _ time.Duration) raft.ApplyFuture {
	time.Sleep(r.fsync)
	return doneFuture{response: r.applyBytes(r.t, 1, data)}
}

// One iteration is 1,024 concurrent opens, on a log that takes 3 ms for an entry.
func BenchmarkConcurrentOpens(b *testing.B) {
	const callers = 1024
	p := proposer.New(proposer.Config{Logger: hclog.NewNullLogger()}, slowRaft{newReplica(), b, 3 * time.Millisecond})
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.Run(b.Context()); err != nil {
			b.Error(err)
		}
	})
	n := uint64(0)
	for b.Loop() {
		var all sync.WaitGroup
		for range callers {
			n++
			c := session.OpenSession{Node: 1, MS: n, Spec: session.Spec{Timeout: 30 * time.Second}}
			binary.BigEndian.PutUint64(c.RequestID[:], n)
			all.Go(func() {
				if result, err := p.Propose(b.Context(), c); err != nil || result.Err != nil {
					b.Errorf("Propose = %v, %v", err, result.Err)
				}
			})
		}
		all.Wait()
	}
	s := p.Stats()
	b.ReportMetric(float64(s.Commands)/float64(s.Entries), "opens/entry")
	b.Cleanup(running.Wait)
}
