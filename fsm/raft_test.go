package fsm

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

// server is the only server of a Raft cluster, with a State and a Proposer. Its stores outlive it.
type server struct {
	*replica

	raft     *raft.Raft
	proposer *proposer.Proposer
	stop     func()
}

type stores struct {
	logs      *raft.InmemStore
	snapshots raft.SnapshotStore
}

func startServer(t *testing.T, in stores) *server {
	t.Helper()
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger = "1", hclog.NewNullLogger()
	address, transport := raft.NewInmemTransport("1")
	if err := raft.BootstrapCluster(conf, in.logs, in.logs, in.snapshots, transport, raft.Configuration{
		Servers: []raft.Server{{ID: "1", Address: address}},
	}); err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		t.Fatal(err)
	}
	s := &server{replica: newReplica()}
	var err error
	if s.raft, err = raft.NewRaft(conf, s.State, in.logs, in.logs, in.snapshots, transport); err != nil {
		t.Fatal(err)
	}
	s.proposer = proposer.New(proposer.Config{Logger: hclog.NewNullLogger()}, s.raft)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- s.proposer.Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := errors.Join(<-stopped, s.raft.Shutdown().Error(), transport.Close()); err != nil {
			t.Error(err)
		}
	}
	return s
}

func (s *server) propose(t *testing.T, c session.Command) session.Result {
	t.Helper()
	result, err := s.proposer.Propose(t.Context(), c)
	if err != nil || result.Err != nil {
		t.Fatalf("%T: %v, %v", c, err, result.Err)
	}
	return result
}

// awaitCommit waits until the state has reached Raft's commit index, as a leader does for a read (R4 leadership needs a
// good round).
func (s *server) awaitCommit(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.WaitApplied(ctx, s.raft.CommitIndex()); err != nil {
		t.Error(err)
	}
}

// A State under Raft itself: terms and indices, no-ops and configurations, snapshots, and a restart.
func TestOnRaft(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		in := stores{logs: raft.NewInmemStore(), snapshots: raft.NewInmemSnapshotStore()}
		s := startServer(t, in)
		if _, err := s.proposer.Propose(t.Context(), begins(session.Configure{})); !errors.Is(err, session.ErrNotLeader) {
			t.Errorf("a proposal before there is a leader = %v, want %v", err, session.ErrNotLeader)
		}
		<-s.raft.LeaderCh()
		begun := s.propose(t, begins(session.Configure{Key: session.Key{1}, Nonce: 1}))
		if got := s.raft.CurrentTerm(); begun.Term != got || begun.Index != 3 {
			t.Errorf("the term begins at %d of %d, want 3 of %d: after the configuration and the no-op", begun.Index,
				begun.Term, got)
		}
		s.awaitCommit(t)
		opened := s.propose(t, opening(1)).Session
		if err := s.raft.AddNonvoter("2", "nowhere", 0, 0).Error(); err != nil {
			t.Fatal(err)
		}
		s.awaitCommit(t)
		if got, want := s.AppliedIndex(), s.raft.LastIndex(); got != want {
			t.Errorf("applied index after a change of members is %d, want %d", got, want)
		}
		if err := s.raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		moved := s.propose(t, session.MoveSession{ID: opened.ID, NewOwner: 2, Instance: 1, Attempt: 1, Named: 1}).Session
		index, digest := s.Digest()
		s.stop()

		s = startServer(t, in)
		defer s.stop()
		<-s.raft.LeaderCh()
		if got := s.propose(t, begins(session.Configure{Key: session.Key{2}, Nonce: 2})); got.Term <= begun.Term {
			t.Errorf("term after a restart is %d, want more than %d", got.Term, begun.Term)
		}
		if got, ok := s.Session(opened.ID); !ok || got.Attachment != moved.Attachment || got.Owner != 2 {
			t.Errorf("the session after a restart is %+v, want %+v", got, moved)
		}
		if got, ok := s.DigestAt(index); !ok || got != digest {
			t.Errorf("digest at %d after a restart is %x, %v, want %x", index, got, ok, digest)
		}
		s.awaitCommit(t)
	})
}
