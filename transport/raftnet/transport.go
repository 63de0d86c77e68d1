package raftnet

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// MaxRequest bounds the bytes of entries in one request, unless its first entry alone is larger. Raft bounds a
	// batch only by its number of entries. A broken connection loses one batch: over a link that breaks once a minute,
	// a follower catches up as long as a minute is enough for one batch of this size.
	MaxRequest = 1 << 20
	// entryBytes is the approximate size of an entry besides its data.
	entryBytes = 64
)

// Transport is Raft's transport over a [Layer]. It bounds the size of requests.
type Transport struct {
	*raft.NetworkTransport
	layer *Layer
	// notices learn which entries followers have; nil: no notices. Set before Raft uses the transport.
	notices *Notices
}

// NewTransport returns Raft's transport over layer. A timeout of 0 is 1.5 s. Pipelining is off: with it, a follower
// that has once answered false can stop receiving entries while heartbeats stay healthy (hashicorp/raft#612). The
// caller closes the transport, which closes the layer.
func NewTransport(layer *Layer, timeout time.Duration) *Transport {
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return &Transport{NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:          layer,
		MaxPool:         3,
		MaxRPCsInFlight: 1,
		Timeout:         timeout,
		Logger:          layer.cfg.Logger,
	}), layer: layer}
}

// Close closes the transport and its layer, and waits for the notices.
func (t *Transport) Close() error {
	err := t.NetworkTransport.Close()
	if t.notices != nil {
		err = errors.Join(err, t.notices.close())
	}
	return err
}

// AppendEntries sends the first entries of a request, up to [MaxRequest], and removes the others from the request. Raft
// sees in the request which entries were sent, and sends the others next.
//
// The request names no commit index beyond the sent entries. The follower regards its own entries up to that index as
// committed, although no request has compared them. Consider a leader whose request has no entries, because it was
// begun before the first entry of the term, and names a later commit index: a deposed leader would apply entries that
// no other node has. (Ongaro and Ousterhout, figure 2: "min(leaderCommit, index of last new entry)".)
func (t *Transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, request *raft.AppendEntriesRequest,
	answer *raft.AppendEntriesResponse,
) error {
	request.Entries = first(request.Entries)
	request.LeaderCommitIndex = min(request.LeaderCommitIndex, request.PrevLogEntry+uint64(len(request.Entries)))
	if t.notices != nil {
		return t.notices.appendEntries(id, target, request, answer)
	}
	return t.NetworkTransport.AppendEntries(id, target, request, answer)
}

// first returns the entries that fit into one request.
func first(entries []*raft.Log) []*raft.Log {
	size := 0
	for i, e := range entries {
		if size += len(e.Data) + len(e.Extensions) + entryBytes; size > MaxRequest && i > 0 {
			return entries[:i]
		}
	}
	return entries
}
