package fsm

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/writers"
)

// digestRing is the number of the newest indices whose digests the state remembers.
const digestRing = 1024

// shownBytes is the number of bytes that an error shows of an unreadable entry.
const shownBytes = 32

// Config is what a [State] needs.
type Config struct {
	Logger hclog.Logger
	// Fatal is called once, on Raft's FSM goroutine, when the state cannot understand an entry or a snapshot. From then
	// on the state applies nothing, takes no snapshot and restores none, so the process must end. Fatal must not block.
	Fatal func(error)
	// LogFile is the path of the log, for messages; empty leaves it out of them.
	LogFile string
	// Writers bound what is kept of writes, the same on all nodes; the zero value is [writers.DefaultLimits]. A simulation
	// makes them small.
	Writers writers.Limits
}

// Observer is told of every change of a state, on Raft's FSM goroutine. It must be quick, and must not wait for
// anything that needs that goroutine, such as [State.WaitApplied] or a proposal. It may read the state.
type Observer interface {
	// Applied says that the entry at index, of term, was applied, whether it changed anything or not. Reads of the
	// state already show the changes. [State.Attachment], [State.AppliedIndex] and [State.WaitApplied] show the entry
	// only after every observer has returned, so a reader of these knows that the observers have acted (M3, T1).
	// changes are in the order in which they happened. They may be kept, but are shared and must not be modified.
	Applied(index, term uint64, changes []session.Change)
	// Restored says that a snapshot has replaced the whole state (M4).
	Restored()
}

// State is the replicated state: Raft's FSM. Raft calls Apply, StoreConfiguration, Snapshot and Restore from one
// goroutine; all other methods are safe for concurrent use.
//
// The indices are the State's own, because raft.AppliedIndex runs ahead of the FSM: AppliedIndex is the index of the
// newest command or configuration entry that this State has applied. Raft does not show its no-ops and barriers to an
// FSM, so a State reaches their indices only with the entry after them. A leader reads Raft's commit index after its
// [session.Configure] was applied (R5), which follows the term's no-op, and Holdfast uses no barriers. So WaitApplied
// reaches every commit index that a leader reads (R4).
type State struct {
	fatal    func(error)
	logger   hclog.Logger
	logFile  string
	writers  writers.Limits
	progress progress
	shown    atomic.Uint64 // the value of index, for readers without the lock; written with mu held

	mu        sync.RWMutex
	tables    *tables              // guarded by mu
	index     uint64               // index of the newest applied entry; guarded by mu
	term      uint64               // term of the newest applied command; guarded by mu
	digests   [digestRing]digestAt // by index modulo digestRing; guarded by mu
	observers []*registration      // in the order of their registration; replaced, never modified; guarded by mu
	halted    error                // the reason why the state has halted, nil while it has not; guarded by mu
	// treeObservers are as observers. Guarded by mu.
	treeObservers []*treeRegistration

	// during is the state as it was before the entry that is being applied, if that is a heavy one; otherwise nil. It is
	// set before mu is locked for the entry and cleared before it is unlocked, so whoever finds mu locked and during nil
	// waits for little.
	during atomic.Pointer[View]

	// tree is the one that reads show. Written with mu held.
	tree atomic.Pointer[Tree]
}

type digestAt struct {
	index  uint64
	digest [16]byte
}

type (
	registration     struct{ Observer }
	treeRegistration struct{ TreeObserver }
)

var (
	_ raft.FSM                = (*State)(nil)
	_ raft.ConfigurationStore = (*State)(nil)
)

// New returns an empty state.
func New(cfg Config) *State {
	s := &State{
		fatal: cfg.Fatal, logger: cfg.Logger.Named("fsm"), logFile: cfg.LogFile, writers: cfg.Writers, tables: newTables(),
	}
	if s.writers == (writers.Limits{}) {
		s.writers = writers.DefaultLimits()
	}
	s.tables.space.writers.SetLimits(s.writers)
	s.tree.Store(s.tables.shown)
	s.remember(0)
	return s
}

// Apply applies the entry and returns a []session.Result with one result for each command, in their order. If it cannot
// understand the entry it changes nothing, calls [Config.Fatal], and returns an error.
func (s *State) Apply(l *raft.Log) any {
	e, err := decodeEntry(l.Data)
	if err != nil {
		what := fmt.Sprintf("log entry %d of term %d", l.Index, l.Term)
		if s.logFile != "" {
			what += " in " + s.logFile
		}
		begin := l.Data[:min(len(l.Data), shownBytes)]
		err = fmt.Errorf("%w (%d bytes, which begin with % x)", err, len(l.Data), begin)
		return s.halt(&UnreadableError{What: what, Err: err})
	}
	s.foresee(e.commands)
	s.mu.Lock()
	if s.halted != nil {
		defer s.mu.Unlock()
		s.during.Store(nil)
		return s.halted
	}
	at := step{
		tables: s.tables, index: l.Index, term: l.Term,
		changes: make([]session.Change, 0, mostChanges(e.commands)), tree: treeStep{clocks: e.clocks},
	}
	at.tick()
	results := make([]session.Result, len(e.commands))
	for i, c := range e.commands {
		results[i] = at.apply(c)
	}
	at.trimCertificates()
	s.index, s.term = l.Index, l.Term
	s.show(l.Index)
	s.remember(l.Index)
	now, observers, attachment := s.tables.shown, s.observers, s.tables.attachment
	treeObservers, usedUp := s.treeObservers, s.tables.usedUp
	s.during.Store(nil) // before the entry is told to anybody: what it did must be seen by then
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

// heavy is the weight from which on readers do not wait for an entry: applying less takes a few milliseconds (U2).
const heavy = 10_000

// foresee lets readers see the state as it is now while an entry is applied, if that takes long (D8).
func (s *State) foresee(commands []session.Command) {
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
	s.during.Store(v)
}

// weigh returns the weight of a command as the state has it now (U2).
func (s *State) weigh(c session.Command) int {
	switch c := c.(type) {
	case session.CloseSessions:
		weight := 0
		for _, one := range c.Sessions {
			weight += 1 + s.tables.space.tree.OwnedWeight(uint64(one.ID))
			if will, ok := s.tables.space.writers.Will(uint64(one.ID)); ok {
				weight += tree.Weight(willOf(&will).Transaction)
			}
		}
		return weight
	default:
		if t, ok := treeForm(c); ok {
			return t.Weight
		}
		return 1
	}
}

// read calls f with the tables, or with a frozen copy of what they were before a heavy entry that is being applied. f
// must not look for requests.
func (s *State) read(f func(t *tables)) {
	if !s.mu.TryRLock() {
		if v := s.during.Load(); v != nil {
			f(&v.tables)
			return
		}
		s.mu.RLock()
	}
	defer s.mu.RUnlock()
	f(s.tables)
}

// show publishes the tree as it is after the entry at index (D8). The caller holds mu.
func (s *State) show(index uint64) {
	s.tables.shown = s.tables.space.freeze(index)
	s.tree.Store(s.tables.shown)
}

// StoreConfiguration notes the index of a configuration entry, which Raft shows to an FSM in no other way. The state
// does not keep the members: Raft does.
func (s *State) StoreConfiguration(index uint64, _ raft.Configuration) {
	s.mu.Lock()
	if s.halted != nil {
		s.mu.Unlock()
		return
	}
	s.index = index
	s.show(index)
	s.remember(index)
	now, treeObservers, attachment := s.tables.shown, s.treeObservers, s.tables.attachment
	usedUp := s.tables.usedUp
	s.mu.Unlock()
	for _, o := range treeObservers {
		o.AppliedTree(now, nil, nil)
	}
	s.progress.publish(index, attachment, usedUp)
}

// remember notes the digest at index, and that the state shows this index. The caller holds mu, or is New.
func (s *State) remember(index uint64) {
	s.shown.Store(index)
	s.digests[index%digestRing] = digestAt{index: index, digest: s.tables.digest()}
}

// halt stops the state for ever and returns the reason. Only the first call sets the reason.
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

// Observe registers o and returns a View of that moment: o is told of every change that the View does not show. cancel
// ends the registration; a call to o that is under way may still run when cancel returns. cancel may be called more
// than once, and by o.
func (s *State) Observe(o Observer) (frozen *View, cancel func()) {
	r := &registration{o}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers = append(slices.Clip(s.observers), r)
	return s.frozen(), func() { s.forget(r) }
}

func (s *State) forget(r *registration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers = slices.DeleteFunc(slices.Clone(s.observers), func(o *registration) bool { return o == r })
}

// ObserveTree registers o and returns the tree of that moment. o is told of every change that this tree does not show.
// cancel is that of [State.Observe].
func (s *State) ObserveTree(o TreeObserver) (now *Tree, cancel func()) {
	r := &treeRegistration{o}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.treeObservers = append(slices.Clip(s.treeObservers), r)
	return s.tables.shown, func() { s.forgetTree(r) }
}

func (s *State) forgetTree(r *treeRegistration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.treeObservers = slices.DeleteFunc(slices.Clone(s.treeObservers), func(o *treeRegistration) bool { return o == r })
}

// frozen returns a View. The caller holds mu for writing, because copying a tree marks its parts as shared.
func (s *State) frozen() *View {
	return &View{index: s.index, term: s.term, tables: s.tables.freeze()}
}

// Snapshot returns a snapshot of the present state at once; Raft writes it while it goes on applying entries. Writing
// checks the snapshot as [State.Scrub] does: a snapshot of a damaged state is not written, and the state's digest is
// replaced.
func (s *State) Snapshot() (raft.FSMSnapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halted != nil {
		return nil, fmt.Errorf("no snapshot of a halted state: %w", s.halted)
	}
	live, v := s.tables, s.frozen()
	return &snapshot{view: v, verify: func() error { return s.verify(v, live, nil) }}, nil
}
