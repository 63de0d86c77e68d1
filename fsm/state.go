package fsm

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm/entry"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/writers"
)

// digestRing is the number of newest indices whose digests the state keeps.
const digestRing = 1024

// shownBytes bounds the bytes of an unreadable entry in an error.
const shownBytes = 32

// Config is what a [State] needs.
type Config struct {
	Logger hclog.Logger
	// Fatal is called once, on Raft's FSM goroutine, when the state cannot understand an entry or a snapshot. From then
	// on the state applies no entry, takes no snapshot and restores none, so the process must end. Fatal must not
	// block.
	Fatal func(error)
	// LogPath is the path of the log, for messages. Messages leave an empty path out.
	LogPath string
	// Writers bounds the kept results of writes. All nodes need the same limits. The zero value is
	// [writers.DefaultLimits]; simulations use small limits.
	Writers writers.Limits
}

// State is the replicated state: Raft's FSM. Raft calls Apply, StoreConfiguration, Snapshot and Restore from one
// goroutine. All other methods are safe for concurrent use.
//
// The State counts indices of its own, because raft.AppliedIndex runs ahead of the FSM: AppliedIndex is the index of
// the newest command or configuration entry that this State has applied. Raft hides its no-ops and barriers from an
// FSM, so a State reaches their indices only with the entry after them. Holdfast uses no barriers, and a leader reads
// Raft's commit index only after the state has applied its [session.Configure] (R5 start of a tracker), which follows
// the term's no-op. So WaitApplied reaches every commit index that a leader reads (R4 leadership needs a good round).
type State struct {
	fatal      func(error)
	logger     hclog.Logger
	logPath    string
	writers    writers.Limits
	progress   progress
	shownIndex atomic.Uint64 // the value of index, for readers without the lock; written with mu held

	mu        sync.RWMutex
	tables    *tables              // guarded by mu
	index     uint64               // index of the newest applied entry; guarded by mu
	term      uint64               // term of the newest applied command; guarded by mu
	digests   [digestRing]digestAt // by index modulo digestRing; guarded by mu
	observers []*registration      // in the order of registration; replaced, never modified; guarded by mu
	halted    error                // why the state has halted, nil before; guarded by mu
	// treeObservers are kept like observers. Guarded by mu.
	treeObservers []*treeRegistration

	// beforeHeavy is the state before the entry that is being applied, if that entry is heavy; otherwise nil. Apply
	// sets it before it locks mu and clears it before it unlocks mu. So a reader that finds mu locked and beforeHeavy
	// nil waits only for a light entry.
	beforeHeavy atomic.Pointer[View]

	// tree is the published tree, which reads show. Written with mu held.
	tree atomic.Pointer[Tree]
}

type digestAt struct {
	index  uint64
	digest [16]byte
}

var (
	_ raft.FSM                = (*State)(nil)
	_ raft.ConfigurationStore = (*State)(nil)
)

// New returns an empty state.
func New(cfg Config) *State {
	s := &State{
		fatal: cfg.Fatal, logger: cfg.Logger.Named("fsm"), logPath: cfg.LogPath, writers: cfg.Writers, tables: newTables(),
	}
	if s.writers == (writers.Limits{}) {
		s.writers = writers.DefaultLimits()
	}
	s.tables.treeState.writers.SetLimits(s.writers)
	s.tree.Store(s.tables.shown)
	s.recordDigest(0)
	return s
}

// Apply applies an entry and returns a []session.Result with the results of the commands, in their order. When Apply
// cannot understand the entry, it changes nothing, calls [Config.Fatal], and returns an error.
func (s *State) Apply(l *raft.Log) any {
	e, err := entry.Decode(l.Data)
	if err != nil {
		what := fmt.Sprintf("log entry %d of term %d", l.Index, l.Term)
		if s.logPath != "" {
			what += " in " + s.logPath
		}
		begin := l.Data[:min(len(l.Data), shownBytes)]
		err = fmt.Errorf("%w (%d bytes, which begin with % x)", err, len(l.Data), begin)
		return s.halt(&UnreadableError{What: what, Err: err})
	}
	s.freezeBeforeHeavy(e.Commands)
	s.mu.Lock()
	if s.halted != nil {
		defer s.mu.Unlock()
		s.beforeHeavy.Store(nil)
		return s.halted
	}
	at := step{
		tables: s.tables, index: l.Index, term: l.Term,
		changes: make([]session.Change, 0, maxChanges(e.Commands)), tree: treeStep{clocks: e.Clocks},
	}
	at.advanceClock()
	results := make([]session.Result, len(e.Commands))
	for i, c := range e.Commands {
		results[i] = at.apply(c)
	}
	at.trimCertificates()
	s.index, s.term = l.Index, l.Term
	s.publishTree(l.Index)
	s.recordDigest(l.Index)
	now, observers, attachment := s.tables.shown, s.observers, s.tables.attachment
	treeObservers, usedUp := s.treeObservers, s.tables.usedUp
	s.beforeHeavy.Store(nil) // before the observers receive the changes: readers must see them by then
	s.mu.Unlock()

	for _, o := range observers {
		o.Applied(l.Index, l.Term, at.changes)
	}
	for _, o := range treeObservers {
		o.AppliedTree(now, at.tree.changes, at.tree.wrote)
	}
	s.progress.publish(l.Index, attachment, usedUp)
	return results
}

// heavy is the minimum weight of an entry for which readers do not wait. Applying a lighter entry takes a few
// milliseconds (U2 weight).
const heavy = 10_000

// freezeBeforeHeavy keeps a copy of the present state for readers if the commands of the next entry are heavy (D8
// published roots).
func (s *State) freezeBeforeHeavy(commands []session.Command) {
	weight := 0
	for _, c := range commands {
		weight += s.weigh(c)
	}
	if weight < heavy {
		return
	}
	s.mu.Lock()
	v := s.frozen()
	s.mu.Unlock()
	s.beforeHeavy.Store(v)
}

// weigh returns the weight of a command in the present state (U2).
func (s *State) weigh(c session.Command) int {
	switch c := c.(type) {
	case session.CloseSessions:
		weight := 0
		for _, one := range c.Sessions {
			weight += 1 + s.tables.treeState.tree.OwnedWeight(uint64(one.ID))
			if will, ok := s.tables.treeState.writers.Will(uint64(one.ID)); ok {
				weight += tree.Weight(willOf(&will).Transaction)
			}
		}
		return weight
	default:
		if t, ok := entry.TreeCommand(c); ok {
			return t.Weight
		}
		return 1
	}
}

// read calls f with the tables. While the state applies a heavy entry, read calls f with a frozen copy of the tables
// before that entry. f must not search for requests: frozen copies have no index of requests.
func (s *State) read(f func(t *tables)) {
	if !s.mu.TryRLock() {
		if v := s.beforeHeavy.Load(); v != nil {
			f(&v.tables)
			return
		}
		s.mu.RLock()
	}
	defer s.mu.RUnlock()
	f(s.tables)
}

// publishTree publishes the tree after the entry at index (D8). The caller holds mu.
func (s *State) publishTree(index uint64) {
	s.tables.shown = s.tables.treeState.freeze(index)
	s.tree.Store(s.tables.shown)
}

// StoreConfiguration records the index of a configuration entry. Raft shows such entries to an FSM in no other way.
// Raft itself keeps the members.
func (s *State) StoreConfiguration(index uint64, _ raft.Configuration) {
	s.mu.Lock()
	if s.halted != nil {
		s.mu.Unlock()
		return
	}
	s.index = index
	s.publishTree(index)
	s.recordDigest(index)
	now, treeObservers, attachment := s.tables.shown, s.treeObservers, s.tables.attachment
	usedUp := s.tables.usedUp
	s.mu.Unlock()
	for _, o := range treeObservers {
		o.AppliedTree(now, nil, nil)
	}
	s.progress.publish(index, attachment, usedUp)
}

// recordDigest records the digest at index, and that reads show this index. The caller holds mu, or is New.
func (s *State) recordDigest(index uint64) {
	s.shownIndex.Store(index)
	s.digests[index%digestRing] = digestAt{index: index, digest: s.tables.digest()}
}

// halt stops the state for ever and returns the reason. The first call sets the reason.
func (s *State) halt(reason error) error {
	s.mu.Lock()
	first := s.halted == nil
	if first {
		s.halted = reason
	}
	reason = s.halted
	s.mu.Unlock()
	if first {
		s.logger.Error("state halted", "index", s.AppliedIndex(), "error", reason)
		s.fatal(reason)
	}
	return reason
}

// frozen returns a View of the present state. The caller holds mu for writing, because a copy of a tree marks the parts
// as shared.
func (s *State) frozen() *View {
	return &View{index: s.index, term: s.term, tables: s.tables.freeze()}
}

// Snapshot returns a snapshot of the present state at once. Raft writes it while the state applies further entries. The
// writer first checks the copy as [State.Scrub] does: it does not write a snapshot of a damaged state, and the state
// gets the computed digest.
func (s *State) Snapshot() (raft.FSMSnapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halted != nil {
		return nil, fmt.Errorf("no snapshot of a halted state: %w", s.halted)
	}
	live, v := s.tables, s.frozen()
	return &snapshot{view: v, verify: func() error { return s.verify(v, live, nil) }}, nil
}
