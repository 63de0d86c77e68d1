package dispatch

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// State is the dispatchers' view of the state: the tree and its writers after the entry at Index.
type State struct {
	Index uint64
	// Founded says that Root is the cluster's tree. Before, no request reaches a dispatcher; a request soon after waits
	// until its dispatcher has advanced (W8 feature level).
	Founded bool
	Root    tree.Frozen
	Writers pending.View
	// Clock is the log clock (D3 log clock).
	Clock time.Duration
	// restores counts the snapshots that have replaced the state.
	restores int
}

// applied returns the number of a session's newest applied write; 0 if it has not written.
func (s *State) applied(id session.ID) uint64 {
	w, _ := s.Writers.Writer(uint64(id))
	return w.Applied
}

// HubLimits bound a node's memory of changes and results for its dispatchers.
type HubLimits struct {
	// Changes bound the ring of the tree's changes, Sessions the ring of changes of sessions, and Results the ring of
	// results of this node's writes.
	Changes, Sessions, Results watch.RingLimits
}

// DefaultHubLimits returns the bounds of V3. Few watchers need changes of sessions, and every open makes one: with a
// million sessions 64 MiB would be a fifth of the node's memory for them.
func DefaultHubLimits() HubLimits {
	return HubLimits{
		Changes: watch.DefaultRingLimits(), Sessions: watch.RingLimits{Items: 32_768, Bytes: 8 << 20},
		Results: watch.RingLimits{Items: 65_536, Bytes: 64 << 20},
	}
}

// outcomeBytes is the memory of an outcome in the ring besides its result.
const outcomeBytes = 96

// attached names a session under one attachment.
type attached struct {
	id         session.ID
	attachment uint64
}

// served is an attachment that dispatchers serve, with the number of its connections: a new one may exist before the
// old one is closed.
type served struct {
	attachment  uint64
	connections int
}

// Hub holds the state that the dispatchers of a node share: the newest state, and the rings of changes and outcomes
// that led to it.
//
// The goroutine that applies the log calls AppliedSessions, Applied and Restored, in the order of the log. All other
// methods are safe for concurrent use.
type Hub struct {
	changes  *watch.TreeRing
	sessions *watch.Ring[session.Change]
	results  *watch.Ring[outcome]
	shown    atomic.Pointer[State]
	// freed counts how often reads of the node could run again after a lack of memory (G9 answer bounds).
	freed atomic.Uint64

	mu sync.Mutex
	// served are the sessions that dispatchers of this node serve. guarded by mu
	served map[session.ID][]served
	// filtered is the newest entry whose results were filtered: only results of served sessions are in the ring.
	// guarded by mu
	filtered uint64
	// dispatchers are woken for each new state. guarded by mu
	dispatchers []*Dispatcher
	// kept are the trees before writes that a dispatcher may need. Only the goroutine that applies the log uses it.
	kept []*keptTree
	// reserved counts the sent writes for which a tree is kept, or will be.
	reserved atomic.Int64
}

// outcome is an outcome in the ring. before is nil if no reads wait for the tree before the write.
type outcome struct {
	pending.Outcome
	before *keptTree
}

// keptTree is the tree before the write at a stamp, until the write's dispatcher has passed the stamp. Safe for
// concurrent use.
type keptTree struct {
	at   tree.Stamp
	root atomic.Pointer[tree.Frozen]
}

// get returns the tree; nil if it is no longer kept.
func (k *keptTree) get() tree.Frozen {
	if k == nil {
		return nil
	}
	if root := k.root.Load(); root != nil {
		return *root
	}
	return nil
}

// drop forgets the tree.
func (k *keptTree) drop() {
	if k != nil {
		k.root.Store(nil)
	}
}

// maxKept bounds the kept trees of a node. A kept tree costs the entries that were changed since.
const maxKept = 4096

// reserveTree reserves a place for the tree before a write; false if the node has none.
func (h *Hub) reserveTree() bool {
	if h.reserved.Add(1) > maxKept {
		h.reserved.Add(-1)
		return false
	}
	return true
}

// releaseTree gives back the place for the tree before a write that had reads before it.
func (h *Hub) releaseTree(p *Request) {
	if p.write.ReadsBefore {
		p.write.ReadsBefore = false
		h.reserved.Add(-1)
	}
}

// NewHub returns the hub of a node with the state now.
func NewHub(limits HubLimits, now State) *Hub {
	h := &Hub{
		changes:  watch.NewTreeRing(limits.Changes, now.Index),
		sessions: watch.NewSessionRing(limits.Sessions, now.Index),
		results: watch.NewRing(limits.Results, now.Index, func(w *outcome) tree.Stamp { return w.At },
			func(w *outcome) int { return outcomeBytes + len(w.Result) }),
		served: map[session.ID][]served{},
	}
	h.shown.Store(&now)
	return h
}

// AppliedSessions records the changes of sessions by the entry at index. Call it before Applied for the same entry.
func (h *Hub) AppliedSessions(index uint64, changes []session.Change) {
	if index <= h.shown.Load().Index {
		return // see Applied
	}
	h.sessions.Append(index, changes...)
}

// Applied records an entry's changes of the tree, and the outcomes of its writes, each in the order of their stamps.
// Call it for each entry.
//
// Applied fills the rings before it publishes the new state. Otherwise a dispatcher could advance to a tree without
// having seen the changes, and never deliver them (G1 order per connection).
//
// An entry that does not follow the earlier entries is not in the log: this node's state differs from the others',
// which the node will find out soon (C2 a quorum decides). The hub ignores such an entry.
func (h *Hub) Applied(now State, changes []tree.Change, wrote []pending.Outcome) {
	if now.Index <= h.shown.Load().Index {
		return
	}
	h.changes.Append(now.Index, changes...)
	own := h.own(now.Index, wrote)
	h.keep(own)
	h.results.Append(now.Index, own...)
	now.restores = h.shown.Load().restores
	h.publish(now)
}

// Restored is called when a snapshot has replaced the state. All rings start anew (V3 ring of changes).
func (h *Hub) Restored(now State) {
	h.changes.Reset(now.Index)
	h.sessions.Reset(now.Index)
	h.results.Reset(now.Index)
	h.own(now.Index, nil)
	h.kept = nil
	now.restores = h.shown.Load().restores + 1
	h.publish(now)
}

func (h *Hub) publish(now State) {
	h.shown.Store(&now)
	h.Wake()
}

// Wake wakes all dispatchers.
func (h *Hub) Wake() {
	for _, d := range h.all() {
		d.wake()
	}
}

func (h *Hub) all() []*Dispatcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dispatchers
}

// keep keeps the trees before writes until their dispatcher drops them, or all dispatchers have passed them. A write
// without a dispatcher, such as that of a closed connection, leaves its tree here: above the bound, the oldest goes.
func (h *Hub) keep(own []outcome) {
	passed := tree.Stamp(math.MaxUint64)
	for _, d := range h.all() {
		passed = min(passed, tree.Stamp(d.stamp.Load()))
	}
	h.kept = slices.DeleteFunc(h.kept, func(k *keptTree) bool { return k.at <= passed || k.get() == nil })
	for _, w := range own {
		if w.before != nil {
			h.kept = append(h.kept, w.before)
		}
	}
	for len(h.kept) > maxKept {
		h.kept[0].drop()
		h.kept[0] = nil
		h.kept = h.kept[1:]
	}
}

// Shown returns the newest published state.
func (h *Hub) Shown() State { return *h.shown.Load() }

// Sessions returns the ring of changes of sessions (V8 events need READ).
func (h *Hub) Sessions() *watch.Ring[session.Change] { return h.sessions }

// own returns the outcomes that dispatchers of this node answer (W4 answers from applied entries).
func (h *Hub) own(index uint64, wrote []pending.Outcome) (own []outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.filtered = index
	if len(h.served) == 0 {
		return nil
	}
	for _, w := range wrote {
		if find(h.served[w.Session], w.Attachment) >= 0 {
			own = append(own, outcomeOf(w))
		}
	}
	return own
}

// outcomeOf moves the tree before a write out of its outcome: the ring has outcomes for long.
func outcomeOf(w pending.Outcome) outcome {
	one := outcome{Outcome: w}
	if w.Before != nil {
		one.before = &keptTree{at: w.At}
		one.before.root.Store(&w.Before)
		one.Before = nil
	}
	return one
}

// serve adds change, 1 or -1, to the number of connections that serve a session. It returns the newest entry whose
// results for this session may be missing in the ring.
func (h *Hub) serve(a attached, change int) (filtered uint64) {
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
		return h.filtered
	}
	h.served[a.id] = all
	return h.filtered
}

func find(all []served, attachment uint64) int {
	return slices.IndexFunc(all, func(s served) bool { return s.attachment == attachment })
}

// Serves reports whether dispatchers serve a session under an attachment.
func (h *Hub) Serves(id session.ID, attachment uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return find(h.served[id], attachment) >= 0
}

// Served names a session that dispatchers serve under an attachment.
type Served struct {
	ID         session.ID
	Attachment uint64
}

// All returns the served attachments, in no order.
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

// Attachments returns the served attachments of a session, except one.
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

// register adds a dispatcher, which is woken for each new state.
func (h *Hub) register(d *Dispatcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dispatchers = append(slices.Clip(h.dispatchers), d)
}
