package fsm

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/session"
)

// digestRing is how many of the newest indices have their digest remembered.
const digestRing = 1024

// shownBytes is how many bytes of an entry that cannot be read are shown.
const shownBytes = 32

// Config is what a [State] needs.
type Config struct {
	Logger hclog.Logger
	// Fatal is told, once and on Raft's FSM goroutine, that an entry or a snapshot cannot be understood. From then on
	// the state applies nothing, takes no snapshot and restores none: the process must end. Fatal must not block.
	Fatal func(error)
	// LogFile is where the log is, for messages; empty: they do not say.
	LogFile string
}

// Observer hears of every change of a state, on Raft's FSM goroutine: it must be quick and must not wait for anything
// that needs that goroutine, such as [State.WaitApplied] or a proposal. It may read the state.
type Observer interface {
	// Applied says that the entry at index, of term, was applied, also when it changed nothing. The state shows the
	// changes already; [State.Attachment], [State.AppliedIndex] and [State.WaitApplied] do not show the entry before
	// every observer has returned, so that who sees them knows that the observers have acted (M3, T1). changes are in
	// the order they happened, are shared and must not be changed; they may be kept.
	Applied(index, term uint64, changes []session.Change)
	// Restored says that a snapshot has replaced the whole state (M4).
	Restored()
}

// State is the replicated state: Raft's FSM. Raft calls Apply, StoreConfiguration, Snapshot and Restore from one
// goroutine; all other methods are safe for concurrent use. Its indices are its own, because raft.AppliedIndex runs
// ahead of the FSM: AppliedIndex is that of the newest command or configuration applied here. Raft does not show its
// own no-ops and barriers to an FSM, so their indices are reached with the entry after them. A leader's term begins
// with a no-op and a [session.Configure] (R5), and nothing here uses barriers: the commit index that a leader reads
// after its Configure was applied is one that WaitApplied reaches (R4).
type State struct {
	fatal    func(error)
	logger   hclog.Logger
	logFile  string
	progress progress
	shown    atomic.Uint64 // what index is, for those who take no lock; moved with mu held

	mu        sync.RWMutex
	tables    *tables              // guarded by mu
	index     uint64               // of the newest entry applied; guarded by mu
	term      uint64               // of the newest command applied; guarded by mu
	digests   [digestRing]digestAt // by index modulo digestRing; guarded by mu
	observers []*registration      // in the order they came; replaced, not changed; guarded by mu
	halted    error                // why nothing is applied any more; guarded by mu
}

type digestAt struct {
	index  uint64
	digest [16]byte
}

type registration struct{ Observer }

var (
	_ raft.FSM                = (*State)(nil)
	_ raft.ConfigurationStore = (*State)(nil)
)

// New returns an empty state.
func New(cfg Config) *State {
	s := &State{fatal: cfg.Fatal, logger: cfg.Logger.Named("fsm"), logFile: cfg.LogFile, tables: newTables()}
	s.remember(0)
	return s
}

// Apply applies the entry and returns a []session.Result with one result for each of its commands, in their order. When
// the entry cannot be understood it changes nothing, tells [Config.Fatal], and returns an error.
func (s *State) Apply(l *raft.Log) any {
	commands, err := DecodeEntry(l.Data)
	if err != nil {
		what := fmt.Sprintf("log entry %d of term %d", l.Index, l.Term)
		if s.logFile != "" {
			what += " in " + s.logFile
		}
		return s.halt(
			&UnreadableError{
				What: what, Err: fmt.Errorf("%w (%d bytes, which begin with % x)", err, len(l.Data),
					l.Data[:min(len(l.Data), shownBytes)]),
			},
		)
	}
	s.mu.Lock()
	if s.halted != nil {
		defer s.mu.Unlock()
		return s.halted
	}
	at := step{tables: s.tables, index: l.Index, term: l.Term}
	results := make([]session.Result, len(commands))
	for i, c := range commands {
		results[i] = at.apply(c)
	}
	s.index, s.term = l.Index, l.Term
	s.remember(l.Index)
	observers, attachment := s.observers, s.tables.attachment
	s.mu.Unlock()

	for _, o := range observers {
		o.Applied(l.Index, l.Term, at.changes)
	}
	s.progress.publish(l.Index, attachment)
	return results
}

// StoreConfiguration takes note of the index of a configuration entry, which Raft shows to an FSM in no other way. The
// members themselves are Raft's business.
func (s *State) StoreConfiguration(index uint64, _ raft.Configuration) {
	s.mu.Lock()
	if s.halted != nil {
		s.mu.Unlock()
		return
	}
	s.index = index
	s.remember(index)
	attachment := s.tables.attachment
	s.mu.Unlock()
	s.progress.publish(index, attachment)
}

// remember notes the digest at index, and that the state shows it. The caller holds mu, or is New.
func (s *State) remember(index uint64) {
	s.shown.Store(index)
	s.digests[index%digestRing] = digestAt{index: index, digest: s.tables.digest()}
}

// halt stops the state for ever and returns why; the first reason stays.
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

// Observe registers o and returns the state frozen at that moment: every later change is told to o, and none that
// frozen shows. cancel ends that; a call to o that is under way when it is called may still be running when it returns.
// It may be called more than once, and by o.
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

// Frozen returns the state as it is now.
func (s *State) Frozen() *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frozen()
}

// frozen needs mu for writing: taking a copy tells the tree that its parts are shared.
func (s *State) frozen() *View {
	return &View{index: s.index, term: s.term, tables: s.tables.freeze()}
}

// Session returns a session, false when there is none with that id.
func (s *State) Session(id session.ID) (session.Session, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r, ok := s.tables.session(id)
	if !ok {
		return session.Session{}, false
	}
	return r.session(), true
}

// Certificate returns how a session ended, false when it has not, or when that is no longer known: the newest 100,000
// are kept.
func (s *State) Certificate(id session.ID) (session.Certificate, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c, ok := s.tables.certificate(id)
	if !ok {
		return session.Certificate{}, false
	}
	return c.session(), true
}

// Credential returns the credential of id, which is a secret; false while the cluster has no key.
func (s *State) Credential(id session.ID) (session.Credential, bool) {
	key, ok := s.key()
	if !ok {
		return session.Credential{}, false
	}
	return key.Credential(id), true
}

// Verify reports, in constant time, whether c is the credential of id; false while the cluster has no key. It does not
// say whether the session exists.
func (s *State) Verify(id session.ID, c session.Credential) bool {
	key, ok := s.key()
	return ok && key.Verify(id, c)
}

func (s *State) key() (session.Key, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables.key, s.tables.key != session.Key{}
}

// Sessions returns how many sessions there are.
func (s *State) Sessions() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables.sessions.Len()
}

// Usage returns how much there is of what the state's capacity bounds.
func (s *State) Usage() session.Usage {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables.usage()
}

// Requests returns how many request ids are remembered (O2).
func (s *State) Requests() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.tables.requests.items)
}

// Room returns nil when the state as it is has room for what c would add, or c would add nothing: else a
// [session.LimitError]. It spares a log entry that would be refused; what decides is the entry (O4).
func (s *State) Room(c session.Command) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables.room(c)
}

// Attachment returns the highest attachment that has been applied, observers included: h of R2. It takes no lock.
func (s *State) Attachment() uint64 { return s.progress.attachment.Load() }

// AppliedIndex returns the index of the newest command or configuration entry that has been applied, observers
// included, or of the snapshot that was restored since. It takes no lock.
func (s *State) AppliedIndex() uint64 { return s.progress.index.Load() }

// ShownIndex returns the index of the newest entry that reads of the state show: AppliedIndex, or above it while
// observers are being told of an entry. Read after a read, it is not below what that read showed (N4). It takes no
// lock.
func (s *State) ShownIndex() uint64 { return s.shown.Load() }

// WaitApplied waits until AppliedIndex is at least index. The error is ctx's. It is cheap: any number may wait.
func (s *State) WaitApplied(ctx context.Context, index uint64) error {
	if err := s.progress.wait(ctx, index); err != nil {
		return fmt.Errorf("waiting for index %d to be applied: %w", index, err)
	}
	return nil
}

// Digest returns the digest of the state and the index of the newest entry that it covers. Replicas at the same index
// have the same digest (I6).
func (s *State) Digest() (index uint64, digest [16]byte) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index, s.digests[s.index%digestRing].digest
}

// DigestAt returns the digest as it was at index, false when no command or configuration entry of this index was among
// the last 1,024 indices.
func (s *State) DigestAt(index uint64) ([16]byte, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at := s.digests[index%digestRing]
	if at.index != index {
		return [16]byte{}, false
	}
	return at.digest, true
}

// Snapshot returns a snapshot of the state as it is now, at once; it is written beside later Applies. One of a state
// that is damaged is not written, and the state has the digest of what is in it from then on, see [State.Scrub].
func (s *State) Snapshot() (raft.FSMSnapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halted != nil {
		return nil, fmt.Errorf("no snapshot of a halted state: %w", s.halted)
	}
	live, v := s.tables, s.frozen()
	return &snapshot{view: v, verify: func() error { return s.verify(v, live, nil) }}, nil
}
