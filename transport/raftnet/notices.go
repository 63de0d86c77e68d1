package raftnet

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// noticeTimeout bounds one notice, from its dial to its answer.
	noticeTimeout = 500 * time.Millisecond
	// noticePause is the time for which a follower gets no notice after one that failed. Raft's own requests reach it
	// meanwhile.
	noticePause = 500 * time.Millisecond
)

// Notices inform followers of a commit at once (R7 commit notices). Raft itself informs them with the next entry, or
// after its commit timeout.
//
// A notice is a request without entries. Its previous entry and its commit index are the same entry: one that this node
// has applied, of the term that this node leads. So a follower regards no entry as committed that the request has not
// compared. A follower gets the notice once it has acknowledged that entry to Raft, on a connection that Raft does not
// use, one notice at a time. Of several entries the notice names the newest, and none that a request of Raft has
// already named.
//
// From the acknowledgements of followers, Notices also know which followers may get entries ahead of the leader's own
// write: see [Notices.Ahead].
//
// Safe for concurrent use.
type Notices struct {
	// leads reports whether this node leads a term now.
	leads func(term uint64) bool
	// transport is Raft's, which carries the entries that go ahead.
	transport *Transport
	// requests carries the notices on its own connections: a notice that waits for a slow follower delays no request of
	// Raft, and has a shorter deadline.
	requests *raft.NetworkTransport
	// running are the sending goroutines, at most one for each follower.
	running sync.WaitGroup

	mu sync.Mutex
	// term is the newest term in which this node has sent entries. landed is the newest entry of that term for notices;
	// 0 for none. guarded by mu
	term, landed uint64
	// followers are the servers that have acknowledged entries in the term. guarded by mu
	followers map[raft.ServerID]*follower
	// stats counts since the start. guarded by mu
	stats NoticeStats
	// closed is set by close. guarded by mu
	closed bool
}

// follower is a server to which this node sends entries in one term. Notices.mu guards the fields below term.
type follower struct {
	id   raft.ServerID
	term uint64

	at raft.ServerAddress
	// as is Raft's last request without its entries. It identifies this node and the term that it leads.
	as raft.AppendEntriesRequest
	// has is the newest entry that the follower has acknowledged, of the term hasTerm. notified is the newest commit
	// index that the follower has received.
	has, hasTerm, notified uint64
	// busy says that a goroutine sends notices to the follower. after is the earliest time of the next one.
	busy  bool
	after time.Time
	// ahead is the newest request that went ahead of Raft's; nil once Raft has made the same request. sending is the
	// request in flight. waits has the entries to send next.
	ahead, sending *ahead
	waits          *load
}

// NoticeStats count the notices that followers have accepted, the notices that failed or were refused, and the requests
// with entries that followers have accepted ahead of Raft's.
type NoticeStats struct{ Accepted, Failed, Pipelined uint64 }

// NewNotices returns the notices of a node, which learn from transport which entries its followers have. Call it once,
// and before Raft uses transport. leads reports whether this node leads a term; several goroutines call it, and it must
// not wait for Raft. Close of the transport ends the notices.
func NewNotices(transport *Transport, leads func(term uint64) bool) *Notices {
	n := &Notices{leads: leads, transport: transport, followers: map[raft.ServerID]*follower{}}
	n.requests = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:          &dialOnly{Layer: transport.layer, closed: make(chan struct{})},
		MaxPool:         1,
		MaxRPCsInFlight: 1,
		Timeout:         noticeTimeout,
		Logger:          transport.layer.cfg.Logger,
	})
	transport.notices = n
	return n
}

// Landed informs followers that an entry of a term that this node leads is committed and applied here. It does not
// wait. The caller omits entries that others follow at once, because those carry the commit index themselves.
func (n *Notices) Landed(term, index uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.enter(term) || index <= n.landed {
		return
	}
	n.landed = index
	for _, f := range n.followers {
		n.start(f)
	}
}

// acknowledged records that a follower has answered a request of Raft with success.
func (n *Notices) acknowledged(id raft.ServerID, at raft.ServerAddress, r *raft.AppendEntriesRequest) {
	if r.PrevLogEntry == 0 && len(r.Entries) == 0 {
		return // a heartbeat compares no entry
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.enter(r.Term) {
		return
	}
	f := n.followers[id]
	if f == nil {
		f = &follower{id: id, term: r.Term}
		n.followers[id] = f
	}
	f.at = at
	f.as = *r
	f.as.Entries = nil
	f.acknowledged(r)
	n.start(f)
}

// acknowledged records the follower's entries after its answer to a request. Called with Notices.mu held.
func (f *follower) acknowledged(r *raft.AppendEntriesRequest) {
	f.notified = max(f.notified, r.LeaderCommitIndex)
	if has := r.PrevLogEntry + uint64(len(r.Entries)); has >= f.has {
		f.has, f.hasTerm = has, lastTerm(r)
	}
}

// lastTerm returns the term of the last entry in a request, or of the entry before if there is none.
func lastTerm(r *raft.AppendEntriesRequest) uint64 {
	if n := len(r.Entries); n > 0 {
		return r.Entries[n-1].Term
	}
	return r.PrevLogTerm
}

// enter reports whether a term is the newest, and drops the state of an earlier one. Called with mu held.
func (n *Notices) enter(term uint64) bool {
	if term > n.term {
		n.term, n.landed = term, 0
		n.followers = map[raft.ServerID]*follower{}
	}
	return term == n.term
}

// start starts the sending goroutine of a follower, unless no notice is due or the goroutine runs. Called with mu held.
func (n *Notices) start(f *follower) {
	if f.busy || n.closed || !n.due(f) {
		return
	}
	f.busy = true
	n.running.Go(func() { n.send(f) })
}

// due reports whether a notice of the newest entry is due for a follower now. Called with mu held.
func (n *Notices) due(f *follower) bool {
	return f.term == n.term && f.notified < n.landed && f.has >= n.landed && !time.Now().Before(f.after)
}

// send sends notices to a follower until none is due.
func (n *Notices) send(f *follower) {
	for {
		request, at, ok := n.next(f)
		if !ok {
			return
		}
		var answer raft.AppendEntriesResponse
		err := n.requests.AppendEntries(f.id, at, &request, &answer)
		n.answered(f, request.LeaderCommitIndex, err == nil && answer.Success)
	}
}

// next returns the next notice to a follower, and its address. Without one it ends the follower's goroutine.
func (n *Notices) next(f *follower) (request raft.AppendEntriesRequest, at raft.ServerAddress, ok bool) {
	leads := n.leads(f.term)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !leads || n.closed || !n.due(f) {
		f.busy = false
		return raft.AppendEntriesRequest{}, "", false
	}
	request = f.as
	request.PrevLogEntry, request.PrevLogTerm = n.landed, f.term
	request.LeaderCommitIndex = n.landed
	return request, f.at, true
}

// answered records the outcome of a notice of an entry.
func (n *Notices) answered(f *follower, index uint64, accepted bool) { //nolint:revive // flag-parameter: an answer
	n.mu.Lock()
	defer n.mu.Unlock()
	if !accepted {
		n.stats.Failed++
		f.after = time.Now().Add(noticePause)
		return
	}
	n.stats.Accepted++
	f.notified = max(f.notified, index)
}

// Stats returns the counts since the start.
func (n *Notices) Stats() NoticeStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stats
}

// close ends the notices. The layer must be closed already, which ends a notice in flight.
func (n *Notices) close() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.running.Wait()
	n.requests.CloseStreams()
	return n.requests.Close()
}

// dialOnly is the layer as the stream layer of a transport that only sends. Each request has the deadline of its
// transport, whatever the receiver reports.
type dialOnly struct {
	*Layer
	once   sync.Once
	closed chan struct{}
}

// Dial connects to the node at address.
func (d *dialOnly) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := d.Layer.Dial(address, timeout)
	if c, ok := conn.(*called); ok {
		c.silent = true
	}
	return conn, err
}

// Accept accepts no connection: it waits for Close.
func (d *dialOnly) Accept() (net.Conn, error) {
	<-d.closed
	return nil, net.ErrClosed
}

// Close ends Accept. The layer stays open.
func (d *dialOnly) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}
