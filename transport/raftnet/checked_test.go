package raftnet

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/test/bubble"
)

func configured(servers ...raft.Server) []byte {
	return raft.EncodeConfiguration(raft.Configuration{Servers: servers})
}

// TestInvalidRequestsAreRefused holds that each check refuses a request beyond its bound, and that Raft's own requests
// pass.
func TestInvalidRequestsAreRefused(t *testing.T) {
	const ok = ""
	one, two := raft.Server{ID: "1", Address: "a"}, raft.Server{ID: "2", Address: "b"}
	entries := func(previous, of uint64, all ...*raft.Log) *raft.AppendEntriesRequest {
		return &raft.AppendEntriesRequest{Term: 9, PrevLogEntry: previous, PrevLogTerm: of, Entries: all}
	}
	configuration := func(b []byte) *raft.AppendEntriesRequest {
		return entries(0, 0, &raft.Log{Index: 1, Term: 9, Type: raft.LogConfiguration, Data: b})
	}
	installs := func(term, index, configured uint64, b []byte) *raft.InstallSnapshotRequest {
		return &raft.InstallSnapshotRequest{
			SnapshotVersion: 1, Term: 9, LastLogTerm: term, LastLogIndex: index,
			ConfigurationIndex: configured, Configuration: b,
		}
	}
	for name, tt := range map[string]struct {
		request any
		words   string
	}{
		"the highest term": {&raft.RequestVoteRequest{Term: 9 + TermLeap}, ok},
		"one more": {
			&raft.RequestVoteRequest{
				Term: 10 + TermLeap,
			}, "term above the newest that this node knows of, 9, of 1048577, want at most 1048576",
		},
		"of a pre-vote":  {&raft.RequestPreVoteRequest{Term: math.MaxUint64 - 1}, "term above"},
		"of a heartbeat": {&raft.AppendEntriesRequest{Term: math.MaxUint64}, "term above"},
		"of a snapshot": {
			&raft.InstallSnapshotRequest{
				SnapshotVersion: 1, Term: 1 << 63, Configuration: configured(one),
			}, "term above",
		},
		"an older term":     {&raft.RequestVoteRequest{Term: 1}, ok},
		"no term":           {&raft.RequestVoteRequest{}, ok},
		"time out now":      {&raft.TimeoutNowRequest{}, ok},
		"a candidate's log": {&raft.RequestVoteRequest{Term: 9, LastLogTerm: 8, LastLogIndex: maxIndex}, ok},
		"of its own term": {
			&raft.RequestVoteRequest{
				Term: 9, LastLogTerm: 9,
			}, "term of the candidate's last entry of 9, want at most 8",
		},
		"of a pre-vote's term": {
			&raft.RequestPreVoteRequest{Term: 9, LastLogTerm: 9}, "term of the candidate's last entry",
		},
		"beyond all indexes": {
			&raft.RequestVoteRequest{Term: 9, LastLogIndex: maxIndex + 1},
			"index of the candidate's last entry",
		},
		"entries": {
			entries(7, 2, &raft.Log{Index: 8, Term: 2}, &raft.Log{Index: 9, Term: 9, Type: raft.LogNoop},
				&raft.Log{Index: 10, Term: 9, Type: raft.LogBarrier}), ok,
		},
		"the first of all": {entries(0, 0, &raft.Log{Index: 1, Term: 1}), ok},
		"a gap": {
			entries(7, 2, &raft.Log{Index: 9, Term: 2}), "entry 9 of term 2 behind entry 7 of term 2",
		},
		"a gap between two": {
			entries(7, 2, &raft.Log{Index: 8, Term: 2}, &raft.Log{Index: 10, Term: 2}),
			"entry 10 of term 2 behind entry 8",
		},
		"in the middle":           {entries(0, 0, &raft.Log{Index: 9, Term: 2}), "entry 9 of term 2 behind entry 0"},
		"a term that goes back":   {entries(7, 2, &raft.Log{Index: 8, Term: 1}), "entry 8 of term 1 behind"},
		"a term that is to come":  {entries(7, 2, &raft.Log{Index: 8, Term: 10}), "entry 8 of term 10 behind"},
		"no entry":                {entries(7, 2, nil), "no entry at number 8"},
		"before, of a later term": {entries(7, 10), "term of the entry before of 10, want at most 9"},
		"before, beyond":          {entries(maxIndex+1, 2), "index of the entry before"},
		"commit beyond": {
			&raft.AppendEntriesRequest{Term: 9, LeaderCommitIndex: maxIndex + 1},
			"index of the commit",
		},
		"a payload": {
			entries(0, 0, &raft.Log{Index: 1, Term: 1, Data: []byte("bad")}),
			"entry 1 of term 1: no payload",
		},
		"a type of no entry": {
			entries(0, 0, &raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration + 1}),
			"an entry of type 6",
		},
		"a type of old": {
			entries(0, 0, &raft.Log{Index: 1, Term: 1, Type: raft.LogAddPeerDeprecated}),
			"an entry of type 2",
		},
		"a configuration": {configuration(configured(one, two)), ok},
		"of nothing":      {configuration(nil), "a configuration: "},
		"of garbage":      {configuration([]byte("garbage")), "a configuration: "},
		"of a number":     {configuration([]byte{7}), "a configuration: "},
		"cut short":       {configuration(configured(one)[:10]), "no message"},
		"of a huge time":  {configuration([]byte("\x81\xa1x\xc9\x7f\xff\xff\xff\xff")), "no message"},
		"of nobody":       {configuration(configured()), "without a voter"},
		"of observers": {
			configuration(configured(raft.Server{Suffrage: raft.Nonvoter, ID: "1", Address: "a"})), "without a voter",
		},
		"one twice": {
			configuration(configured(one, raft.Server{ID: "1", Address: "b"})),
			"without a name or twice",
		},
		"one address twice": {
			configuration(configured(one, raft.Server{ID: "2", Address: "a"})),
			"without a name or twice",
		},
		"without a name":     {configuration(configured(raft.Server{Address: "a"})), "without a name or twice"},
		"a snapshot":         {installs(9, 20, 20, configured(one)), ok},
		"of a later term":    {installs(10, 20, 2, configured(one)), "term of the snapshot of 10, want at most 9"},
		"of an index beyond": {installs(9, maxIndex+1, 2, configured(one)), "index of the snapshot"},
		"configured later": {
			installs(9, 20, 21, configured(one)), "index of the snapshot's configuration of 21, want at most 20",
		},
		"configured with garbage": {installs(9, 20, 2, []byte("garbage")), "a configuration: "},
		"a snapshot of old": {
			&raft.InstallSnapshotRequest{Term: 9, Peers: []byte("\xdd\x7f\xff\xff\xff")},
			"a snapshot of version 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Checked{checks: Checks{Term: func() uint64 { return 9 }, Command: func(b []byte) error {
				if string(b) == "bad" {
					return errors.New("no payload")
				}
				return nil
			}}}
			if err := c.request(tt.request); (err == nil) != (tt.words == ok) ||
				err != nil && !strings.Contains(err.Error(), tt.words) {
				t.Errorf("got %v, want %q", err, tt.words)
			}
		})
	}
}

// TestAnswersOfAbsurdTerms: an answer may have any term far enough below the maximum, and no higher one unless it is
// close to the known term.
func TestAnswersOfAbsurdTerms(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a, log := network.layer(t, "a", "c", 1)
		b, _ := network.layer(t, "b", "c", 2)
		known, answer := uint64(9), uint64(0)
		ours, theirs := NewChecked(NewTransport(a, 0),
			Checks{Term: func() uint64 { return known }, Logger: a.cfg.Logger}), NewTransport(b, 0).NetworkTransport
		over := make(chan struct{})
		go func() {
			for {
				select {
				case rpc := <-theirs.Consumer():
					switch rpc.Command.(type) {
					case *raft.AppendEntriesRequest:
						rpc.Respond(&raft.AppendEntriesResponse{Term: answer}, nil)
					case *raft.RequestVoteRequest:
						rpc.Respond(&raft.RequestVoteResponse{Term: answer}, nil)
					case *raft.RequestPreVoteRequest:
						rpc.Respond(&raft.RequestPreVoteResponse{Term: answer}, nil)
					case *raft.InstallSnapshotRequest:
						rpc.Respond(&raft.InstallSnapshotResponse{Term: answer}, nil)
					}
				case <-over:
					return
				}
			}
		}()
		for _, tt := range []struct {
			known, answer uint64
			ok            bool
		}{
			{9, 9, true},
			{9, FarTerm, true},
			{9, FarTerm + 1, false},
			{9, math.MaxUint64 - 1, false},
			{FarTerm, FarTerm + TermLeap, true},
			{FarTerm, FarTerm + TermLeap + 1, false},
		} {
			known, answer = tt.known, tt.answer
			for _, err := range []error{
				ours.AppendEntries("2", "b", &raft.AppendEntriesRequest{}, &raft.AppendEntriesResponse{}),
				ours.RequestVote("2", "b", &raft.RequestVoteRequest{}, &raft.RequestVoteResponse{}),
				ours.RequestPreVote("2", "b", &raft.RequestPreVoteRequest{}, &raft.RequestPreVoteResponse{}),
				ours.InstallSnapshot("2", "b", &raft.InstallSnapshotRequest{}, &raft.InstallSnapshotResponse{},
					strings.NewReader("")),
			} {
				if refused := new(malformed); errors.As(err, &refused) == tt.ok || tt.ok && err != nil {
					t.Errorf("an answer of term %d to a node that knows of %d: %v", tt.answer, tt.known, err)
				}
			}
		}
		if n := strings.Count(log.String(), "raft message refused"); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, log)
		}
		close(over)
		if err := ours.Close(); err != nil {
			t.Error(err)
		}
		shut(t, theirs)
	})
}

// TestCheckedClosesWithAPendingRequest: Close does not wait for Raft.
func TestCheckedClosesWithAPendingRequest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a, _ := network.layer(t, "a", "c", 1)
		b, _ := network.layer(t, "b", "c", 2)
		ours, theirs := NewChecked(NewTransport(a, 0), Checks{Term: func() uint64 { return 9 }}),
			NewTransport(b, 0).NetworkTransport
		called := make(chan error, 1)
		go func() {
			called <- theirs.RequestVote("1", "a", &raft.RequestVoteRequest{}, &raft.RequestVoteResponse{})
		}()
		time.Sleep(time.Second)
		for range 2 {
			if err := ours.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := <-called; err == nil {
			t.Error("a request that Raft did not take was answered")
		}
		shut(t, theirs)
	})
}
