package raftnet

import (
	"time"

	"github.com/hashicorp/raft"
)

const (
	// MaxRequest is how many bytes of entries one request carries at most, unless its first entry alone has more.
	// Raft bounds a batch by the number of its entries alone. What a broken connection loses is one batch, so over a
	// link that breaks once a minute a follower catches up as long as a minute is enough for one of these.
	MaxRequest = 1 << 20
	// entryBytes is about what an entry takes besides its data.
	entryBytes = 64
)

// Transport is Raft's transport over a [Layer], which sends no more at a time than is good.
type Transport struct {
	*raft.NetworkTransport
}

// NewTransport returns Raft's transport over layer. A timeout of 0 is 1.5 s. Pipelining is off: with it, a follower
// that has once answered false can stop receiving entries while heartbeats stay healthy (hashicorp/raft#612). The
// caller closes the transport, which closes the layer.
func NewTransport(layer *Layer, timeout time.Duration) *Transport {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return &Transport{raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:          layer,
		MaxPool:         3,
		MaxRPCsInFlight: 1,
		Timeout:         timeout,
		Logger:          layer.cfg.Logger,
	})}
}

// AppendEntries sends the first entries of a request, as many as go into [MaxRequest], and takes the others out of
// it: Raft looks into the request for what was sent, and sends the others next.
//
// It tells the follower of no commit beyond them. The follower takes what it has itself up to that index for
// committed, though nobody has compared it: a leader whose request has no entries, because it was begun before the
// first of the term, and names a commit that has come since would have a deposed leader apply entries that nobody
// else has. (Ongaro and Ousterhout, figure 2: "min(leaderCommit, index of last new entry)".)
func (t *Transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, request *raft.AppendEntriesRequest,
	answer *raft.AppendEntriesResponse,
) error {
	request.Entries = first(request.Entries)
	request.LeaderCommitIndex = min(request.LeaderCommitIndex, request.PrevLogEntry+uint64(len(request.Entries)))
	return t.NetworkTransport.AppendEntries(id, target, request, answer)
}

// first returns the entries that go into one request.
func first(entries []*raft.Log) []*raft.Log {
	size := 0
	for i, e := range entries {
		if size += len(e.Data) + len(e.Extensions) + entryBytes; size > MaxRequest && i > 0 {
			return entries[:i]
		}
	}
	return entries
}
