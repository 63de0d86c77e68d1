package lane

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// Wrote says what became of a write when it was applied, as the state tells it.
type Wrote struct {
	Session session.ID
	// Attachment and Number are those of the write.
	Attachment, Number uint64
	// At is the write's position in the log.
	At tree.Stamp
	// Result is the kept one; nil with an Err. It must not be modified.
	Result []byte
	Err    error
}

// Kept is what the state keeps of writes, as it was after one entry. It is safe for concurrent use.
type Kept interface {
	// Applied returns the number of a session's newest applied write, 0 if it has not written.
	Applied(id uint64) uint64
	// Result returns the kept result of a write; false if there is none (X3).
	Result(id, number uint64) ([]byte, bool)
}

// Published is the state as lanes see it: the tree and its writers after the entry at Index.
type Published struct {
	Index uint64
	// Founded says that Root is the cluster's tree. Before, no request comes to a lane; one that comes soon after waits
	// until its lane has gone on (W8).
	Founded bool
	Root    tree.Frozen
	Kept    Kept
	// Clock is the log clock (D3).
	Clock time.Duration
	// restores counts the snapshots that have replaced the state.
	restores int
}

// HubLimits bound what a node remembers for its lanes.
type HubLimits struct {
	// Changes bound the ring of the tree's changes, Sessions that of changes of sessions, and Results that of the results
	// of this node's writes.
	Changes, Sessions, Results watch.RingLimits
}

// DefaultHubLimits returns the bounds of V3. Changes of sessions are told to few, and every open makes one: with a
// million sessions 64 MiB would be a fifth of what the node holds for them.
func DefaultHubLimits() HubLimits {
	return HubLimits{
		Changes: watch.DefaultRingLimits(), Sessions: watch.RingLimits{Items: 32_768, Bytes: 8 << 20},
		Results: watch.RingLimits{Items: 65_536, Bytes: 64 << 20},
	}
}

// wroteBytes is what a result takes in the ring, besides its bytes.
const wroteBytes = 96

// attached names a session under one attachment.
type attached struct {
	id         session.ID
	attachment uint64
}

// served is an attachment that lanes serve, with the number of its connections: a new one may be there before the old
// one is closed.
type served struct {
	attachment  uint64
	connections int
}

// Hub is what the lanes of a node have in common: the newest state, and the rings of what led to it.
//
// The goroutine that applies the log calls AppliedSessions, Applied and Restored, in the order of the log. Everything
// else is safe for concurrent use.
type Hub struct {
	changes  *watch.TreeRing
	sessions *watch.Ring[watch.SessionChange]
	results  *watch.Ring[Wrote]
	shown    atomic.Pointer[Published]
	// rooms counts how often the node had room for reads again (G9).
	rooms atomic.Uint64

	mu sync.Mutex
	// served are the sessions that lanes of this node serve. guarded by mu
	served map[session.ID][]served
	// looked is the newest entry of whose results only those of served sessions went into the ring. guarded by mu
	looked uint64
	// wakes are told of each new state. guarded by mu
	wakes []func()
}

// NewHub returns the hub of a node whose state is that of now.
func NewHub(limits HubLimits, now Published) *Hub {
	h := &Hub{
		changes:  watch.NewTreeRing(limits.Changes, now.Index),
		sessions: watch.NewSessionRing(limits.Sessions, now.Index),
		results: watch.NewRing(limits.Results, now.Index, func(w *Wrote) tree.Stamp { return w.At },
			func(w *Wrote) int { return wroteBytes + len(w.Result) }),
		served: map[session.ID][]served{},
	}
	h.shown.Store(&now)
	return h
}

// AppliedSessions takes the changes of sessions that the entry at index made. It is called before Applied for the same
// entry.
func (h *Hub) AppliedSessions(index uint64, changes []session.Change) {
	if index <= h.shown.Load().Index {
		return // see Applied
	}
	ring := make([]watch.SessionChange, len(changes))
	for i, c := range changes {
		ring[i] = watch.SessionChange{Stamp: c.Stamp, Change: c}
	}
	h.sessions.Append(index, ring...)
}

// Applied takes what an entry did to the tree: its changes, and its writes, each in the order of their stamps. It is
// called for each entry.
//
// The rings come first, and the new state is published behind them. Without: a lane goes on at a tree whose changes it
// has not seen, and never tells them (G1).
//
// An entry that does not come behind the ones before it is none of the log's: this node's state is not that of the
// others, which it is about to find out (D2). It is not told.
func (h *Hub) Applied(now Published, changes []tree.Change, wrote []Wrote) {
	if now.Index <= h.shown.Load().Index {
		return
	}
	h.changes.Append(now.Index, changes...)
	h.results.Append(now.Index, h.own(now.Index, wrote)...)
	now.restores = h.shown.Load().restores
	h.publish(now)
}

// Restored says that a snapshot has replaced the state. All rings start anew (V3).
func (h *Hub) Restored(now Published) {
	h.changes.Reset(now.Index)
	h.sessions.Reset(now.Index)
	h.results.Reset(now.Index)
	h.own(now.Index, nil)
	now.restores = h.shown.Load().restores + 1
	h.publish(now)
}

func (h *Hub) publish(now Published) {
	h.shown.Store(&now)
	h.Wake()
}

// Wake wakes all lanes.
func (h *Hub) Wake() {
	h.mu.Lock()
	wakes := h.wakes
	h.mu.Unlock()
	for _, wake := range wakes {
		wake()
	}
}

// Shown returns the newest published state.
func (h *Hub) Shown() Published { return *h.shown.Load() }

// Sessions returns the ring of changes of sessions (V8).
func (h *Hub) Sessions() *watch.Ring[watch.SessionChange] { return h.sessions }

// own returns those of the writes that lanes of this node answer (W4).
func (h *Hub) own(index uint64, wrote []Wrote) (own []Wrote) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looked = index
	if len(h.served) == 0 {
		return nil
	}
	for _, w := range wrote {
		if find(h.served[w.Session], w.Attachment) >= 0 {
			own = append(own, w)
		}
	}
	return own
}

// serve notes that one connection more, or one less, serves a session. It returns the newest entry whose results may
// not be in the ring for that.
func (h *Hub) serve(a attached, change int) (looked uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.served[a.id]
	i := find(all, a.attachment)
	if i < 0 {
		all = append(all, served{attachment: a.attachment})
		i = len(all) - 1
	}
	if all[i].connections += change; all[i].connections == 0 {
		all = slices.Delete(all, i, i+1)
	}
	if len(all) == 0 {
		delete(h.served, a.id)
		return h.looked
	}
	h.served[a.id] = all
	return h.looked
}

func find(all []served, attachment uint64) int {
	return slices.IndexFunc(all, func(s served) bool { return s.attachment == attachment })
}

// Serves reports whether lanes serve a session under an attachment.
func (h *Hub) Serves(id session.ID, attachment uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return find(h.served[id], attachment) >= 0
}

// Served names a session that lanes serve under an attachment.
type Served struct {
	ID         session.ID
	Attachment uint64
}

// All returns what lanes serve, in no order.
func (h *Hub) All() (all []Served) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, some := range h.served {
		for _, s := range some {
			all = append(all, Served{id, s.attachment})
		}
	}
	return all
}

// Attachments returns those under which lanes serve a session, but for one.
func (h *Hub) Attachments(id session.ID, but uint64) (all []uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.served[id] {
		if s.attachment != but {
			all = append(all, s.attachment)
		}
	}
	return all
}

// onPublish adds to those who are woken by each new state. wake must return at once.
func (h *Hub) onPublish(wake func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakes = append(slices.Clip(h.wakes), wake)
}
