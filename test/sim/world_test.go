package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/test/sim/simnet"
)

// world is one simulated cluster with its network, its disks and its record.
type world struct {
	*simnet.Network
	t       *testing.T
	seed    uint64
	dir     string
	record  *history.Recorder
	names   []string
	clients []string
	callers []string
	drives  map[string]*drive
	logs    *logs
	report  *report
	// watched reports that clients watch the tree. Set before any node starts.
	watched bool
	plot    *plot
	ledger  *ledger
	// eager nodes take snapshots and truncate their logs so often that followers are restored from snapshots. Set
	// before any node starts.
	eager bool
	// readOnly are the nodes whose setting read_only is on. Set before any node starts.
	readOnly  map[string]bool
	crossings *crossings
	// others counts the goroutines that outlive their starters: processes that end, and supervisors.
	others sync.WaitGroup
	// closing is closed when the run ends. Nothing is started after that.
	closing chan struct{}

	mu         sync.Mutex
	lives      map[string]*process      // guarded by mu; the present or last process of a node
	clocks     map[string]time.Duration // guarded by mu; how far a node's wall clock is ahead
	lost       bool                     // guarded by mu; a disk was emptied
	stops      map[string]chan struct{} // guarded by mu; closed when the stopped process of a node continues
	clockReads map[string]int           // guarded by mu; how often a node has read a wrong clock
	lags       map[string]time.Duration // guarded by mu; how much longer a node takes to apply an entry
	lagged     map[string]int           // guarded by mu; how many entries a node has applied late
	ended      map[session.ID]struct{}  // guarded by mu; sessions whose end a node has applied
	wake       chan struct{}            // guarded by mu; closed and replaced when ended grows
	nears      chan struct{}            // guarded by mu; closed and replaced shortly before a fault
	freeze     freezing                 // guarded by mu; the newest freeze that an operator has requested
	roll       *roll                    // nil where the members stay
	extended   map[session.ID]bool      // guarded by mu; the sessions that an operator has asked to keep
	guests     int                      // guarded by mu; the number of hosts for short-lived clients
	// instances counts the client processes that take over sessions. guarded by mu
	instances uint64
	// opened are the sessions whose open a node has applied, in that order. knows has the same sessions. guarded by mu
	opened []session.ID
	knows  map[session.ID]bool
	// suspects are sessions with findings that are not the checker's. guarded by mu
	suspects []session.ID
}

// newWorld makes the cluster of a report, with production's wiring. It does not start the cluster.
func newWorld(t *testing.T, r *report) *world {
	t.Helper()
	w := &world{
		Network:    simnet.New(latencies(r.Seed)),
		t:          t,
		seed:       r.Seed,
		dir:        scratch(t),
		record:     history.NewRecorder(),
		drives:     make(map[string]*drive),
		logs:       newLogs(),
		report:     r,
		plot:       &plot{recorded: make(map[uint64]bool)},
		ledger:     &ledger{recorded: make(map[uint64]bool)},
		closing:    make(chan struct{}),
		lives:      make(map[string]*process),
		clocks:     make(map[string]time.Duration),
		stops:      make(map[string]chan struct{}),
		clockReads: make(map[string]int),
		lags:       make(map[string]time.Duration),
		lagged:     make(map[string]int),
		ended:      make(map[session.ID]struct{}),
		wake:       make(chan struct{}),
		nears:      make(chan struct{}),
		knows:      make(map[session.ID]bool),
		extended:   make(map[session.ID]bool),
	}
	w.logs.on = w.strays
	w.Seed(r.Seed)
	w.crossings = newCrossings(w.stream("crossings"))
	slots := r.Nodes
	if w.changes() {
		w.roll, slots = newRoll(r.Nodes), r.Nodes+newcomers
	}
	for i := range slots {
		name := fmt.Sprintf("n%d", i+1)
		w.names = append(w.names, name)
		w.drives[name] = &drive{dir: filepath.Join(w.dir, name), rand: w.stream("disk of " + name)}
	}
	return w
}

// failf records a finding that is not the checker's.
func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	text := fmt.Sprintf(format, args...)
	w.report.fail(text)
	w.t.Errorf("seed %d: %s", w.seed, text)
}

// failAbout is failf about a session, whose story the run will show.
func (w *world) failAbout(id session.ID, format string, args ...any) {
	w.t.Helper()
	w.mu.Lock()
	w.suspects = append(w.suspects, id)
	w.mu.Unlock()
	w.failf("session "+id.String()+": "+format, args...)
}

// memory is the directory whose files Linux keeps in memory.
const memory = "/dev/shm"

// scratch returns a directory for the disks of a run. It is in memory if possible, unless TMPDIR names a directory. A
// sync in memory costs no time; drive decides what survives a crash.
func scratch(t *testing.T) string {
	t.Helper()
	if os.Getenv("TMPDIR") == "" {
		//nolint:usetesting // TMPDIR also holds kept files
		if dir, err := os.MkdirTemp(memory, "holdfast-sim-"); err == nil {
			t.Cleanup(func() {
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			})
			return dir
		}
	}
	return t.TempDir()
}

// latencies gives each link a random latency, from 0.1 to 3 ms.
func latencies(seed uint64) func(from, to string) time.Duration {
	return func(from, to string) time.Duration {
		h := seed
		for _, c := range from + ">" + to {
			h = (h ^ uint64(c)) * 1099511628211
		}
		return 100*time.Microsecond + time.Duration(h%2900)*time.Microsecond
	}
}

// stream returns a random source for one user of the seed.
func (w *world) stream(name string) *rand.Rand {
	var h uint64 = 14695981039346656037
	for _, c := range name {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(w.seed, h))
}

func (w *world) config(name, dir string) config.Config {
	cfg := config.Default()
	cfg.Auth.Mode = "none"
	cfg.Resources.DiskLimit = 100 // the disk of this machine is not the test's
	cfg.ClusterID = "sim"
	cfg.DataDir = dir
	for i, n := range w.names {
		if n == name {
			cfg.Node = session.Node(i + 1)
		}
		// A newcomer's peers are all nodes before it, which are the members or have been.
		if i < max(w.report.Nodes, w.indexOf(name)+1) {
			cfg.Peers = append(cfg.Peers,
				config.Peer{Node: session.Node(i + 1), Raft: n + ":7401", Peer: n + ":7402", Client: n + ":7400"})
		}
	}
	if w.roll != nil {
		cfg.Raft.Join = int(cfg.Node) > w.report.Nodes
		cfg.Clients.DrainTimeout = 5 * time.Second
	}
	cfg.ReadOnly = w.readOnly[name]
	// The network of a killed node is gone, so its orderly stop sends nothing. Raft ends after its last dial.
	cfg.Tuning.ShutdownTimeout = 5 * time.Second
	cfg.Sessions.Local = w.locals()
	cfg.Tree.QuotasByACL = true
	if w.zookeepers() {
		cfg.Listen.ZooKeeper = ":7404"
	}
	if w.narrow() {
		cfg.Sessions.MaxSessions = smallSessions
	}
	if w.eager {
		cfg.Tuning.SnapshotInterval, cfg.Tuning.SnapshotThreshold, cfg.Tuning.TrailingLogs = 5*time.Second, 20, 4
		if w.seed%3 == 2 { // the log reaches back to the snapshot before the newest, so a node can do without the newest
			cfg.Tuning.TrailingLogs = 200
		}
		cfg.Tuning.LogBytes = 64 << 10 // segments of 8 KiB
	}
	return cfg
}

// locals reports whether the cluster has local sessions, and clients that use them.
func (w *world) locals() bool { return (w.seed%7 == 3 || w.seed%7 == 6) && !w.narrow() }

// households reports whether tenants hold so many sessions that they resume them with one message when they lose a node
// (M1 a resume is a move).
func (w *world) households() bool { return w.seed%5 == 1 }

// commitTimeout is how soon Raft notifies followers of a commit when the leader's notice was lost (R7 commit notices).
// Every eighth seed has production's value, which is longer.
func (w *world) commitTimeout() time.Duration {
	if w.seed%8 == 0 {
		return 0
	}
	return 50 * time.Millisecond
}

// Nodes, Clients and Callers implement faults.Hosts.
func (w *world) Nodes() []string { return w.names }

func (w *world) Clients() []string { return w.clients }

func (w *world) Callers() []string { return w.callers }

// endpoints returns the client addresses of all nodes.
func (w *world) endpoints() []string {
	var addresses []string
	for _, n := range w.names {
		addresses = append(addresses, n+":7400")
	}
	return addresses
}

// guest returns the name of a new host for a short-lived client.
func (w *world) guest(kind string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.guests++
	return fmt.Sprintf("%s%d", kind, w.guests)
}

// instance returns the number of a new client process (M1).
func (w *world) instance() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.instances++
	return w.instances
}

// tookOver records the end of a call that deliberately took the session of t over.
func (w *world) tookOver(who string, instance uint64, t session.Token, sent time.Duration) {
	w.record.Add(
		history.Event{
			Kind: history.TookOver, Who: who, ID: t.ID, Attachment: t.Attachment, Local: t.Local,
			Instance: instance, Sent: sent,
		},
	)
}

// Reset implements faults.Weather.
func (w *world) Reset(one, other string) int {
	n := w.Network.Reset(one, other)
	if n > 0 {
		w.record.Add(history.Event{Kind: history.Reset, Who: one, Text: other})
	}
	return n
}

// Refuse and Admit implement faults.Dials.
func (w *world) Refuse(from, to string) {
	w.record.Add(history.Event{Kind: history.Refuses, Who: from, Text: to})
	w.Network.Refuse(from, to)
}

func (w *world) Admit(from, to string) {
	w.Network.Admit(from, to)
	w.record.Add(history.Event{Kind: history.Admits, Who: from, Text: to})
}

// Suspend implements faults.Processes. No traffic comes in or goes out, and the node reads no clock. Its other work
// continues.
func (w *world) Suspend(name string) (run func() bool) {
	from, goes := w.record.Since(time.Now()), make(chan struct{})
	one := w.life(name).alive()
	text := fmt.Sprintf("clock of %s shows %v", name, from)
	w.record.Add(history.Event{Kind: history.FaultBegan, Who: name, Text: text})
	w.Pause(name)
	w.mu.Lock()
	w.stops[name] = goes
	w.mu.Unlock()
	return func() bool {
		w.mu.Lock()
		delete(w.stops, name)
		w.mu.Unlock()
		w.Resume(name)
		close(goes)
		w.record.Add(history.Event{Kind: history.FaultEnded, Who: name, Text: text})
		stopped := one != nil && w.life(name).alive() == one
		if stopped {
			w.record.Add(history.Event{Kind: history.Stalled, Who: name, Sent: from})
		}
		return stopped
	}
}

// runs returns the function in which a process of a node waits while the node is suspended.
func (w *world) runs(name string) func() {
	return func() {
		w.mu.Lock()
		goes := w.stops[name]
		w.mu.Unlock()
		if goes != nil {
			<-goes
		}
	}
}

// SetClock implements faults.World.
func (w *world) SetClock(name string, forward time.Duration) (undo func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clocks[name] += forward
	before := w.clockReads[name]
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.clocks[name] -= forward
		return w.clockReads[name] > before
	}
}

// wallClock returns a node's clock.
func (w *world) wallClock(name string) func() time.Time {
	return func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		ahead := w.clocks[name]
		if ahead != 0 {
			w.clockReads[name]++
		}
		return time.Now().Add(ahead)
	}
}

// awaitFault waits until a fault is near, for at most d.
func (w *world) awaitFault(ctx context.Context, d time.Duration) {
	w.mu.Lock()
	nears := w.nears
	w.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-nears:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (w *world) end(id session.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[id] = struct{}{}
	close(w.wake)
	w.wake = make(chan struct{})
}

// awaitEnd waits until a node has applied the end of id. It reports false when ctx ended first.
func (w *world) awaitEnd(ctx context.Context, id session.ID) bool {
	for {
		w.mu.Lock()
		_, ok := w.ended[id]
		wake := w.wake
		w.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return false
		}
	}
}
