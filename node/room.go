package node

import (
	"context"
	"fmt"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"holdfast/session"
	"holdfast/transport/gate"
)

// Memory is the limit that the Go runtime of a process keeps its memory within.
type Memory struct {
	// Limit is in bytes, 0 for none.
	Limit uint64
	// From says what has set it.
	From MemorySource
}

// MemorySource says where a process has its limit of memory from.
type MemorySource string

// Sources of a limit of memory.
const (
	MemoryFromSetting     MemorySource = "memory_limit"
	MemoryFromEnvironment MemorySource = "GOMEMLIMIT"
	MemoryFromGroup       MemorySource = "control group"
	MemoryFromMachine     MemorySource = "machine"
	MemoryUnlimited       MemorySource = "none"
)

// Measures read how much of the machine is used. A test has its own.
type Measures struct {
	// Disk returns how much room the data directory's file system has.
	Disk func() (Disk, error)
	// Heap returns the bytes of the objects that the last collection of garbage has found in use.
	Heap func() uint64
}

const (
	// shareOfOpens and shareOfAll are the shares of the memory limit beyond which opens, and resumes and writes too, are
	// refused. The collector works ever more as the heap in use comes near the limit: at nine tenths it collects ten times
	// for each time that the heap is filled.
	shareOfOpens, shareOfAll = 0.8, 0.9
	calmMemory               = 0.05
)

// threshold is a share of memory. It is passed upwards at one share, and downwards at a lower one.
type threshold struct {
	at, calm float64
	over     bool
}

// look takes the present share, and reports whether the threshold was passed either way.
func (t *threshold) look(share float64) (changed bool) {
	was := t.over
	switch {
	case share >= t.at:
		t.over = true
	case share < t.at-t.calm:
		t.over = false
	}
	return t.over != was
}

// room looks how much of the disk and of the memory is used, and has the gate refuse what would take more (O5). What
// ends sessions or keeps them alive goes on. One goroutine calls run, and another watchDisk: asking a disk that hangs
// takes as long as the disk hangs, and holds up nothing else. The other methods are safe for concurrent use.
type room struct {
	memory   Memory
	measures Measures
	pulse    session.Pulse
	interval time.Duration
	logger   hclog.Logger
	// noRoom reports whether the voters with room on their disks are no quorum, and fullDisks returns the members whose
	// disks are full, both by the leader's word.
	noRoom    func() bool
	fullDisks func() []session.Node
	gate      *gate.Gate
	// changed is told that the disk has become full, or has room again.
	changed func()

	// disk and complaints are watchDisk's, opens and all are run's.
	disk       fullDisk
	complaints rate.Sometimes
	opens, all threshold
	state      roomState
}

// roomState is what the last looks have found. Safe for concurrent use.
type roomState struct {
	// disk is what the disk has told last; nil before that.
	disk atomic.Pointer[Disk]
	heap atomic.Uint64
	// full says that this node's disk is full. While the disk gives no answer, the last one counts.
	full atomic.Bool
	// diskHold and memoryHold say what is refused and why; nil while nothing is.
	diskHold, memoryHold atomic.Pointer[string]
}

func newRoom(n *Node) *room {
	measures := n.options.Measures
	if measures.Disk == nil {
		measures.Disk = func() (Disk, error) { return DiskOf(n.dir.Path) }
	}
	if measures.Heap == nil {
		measures.Heap = heapInUse
	}
	return &room{
		memory: n.options.Memory, measures: measures, pulse: n.options.pulse,
		interval: n.cfg.Sessions.HeartbeatInterval, logger: n.options.Logger,
		noRoom:     n.server.NoRoom,
		fullDisks:  func() []session.Node { a, _ := n.server.Aside(); return a.Full },
		gate:       n.ports.client.Gate(),
		changed:    n.health.drain.diskChanged,
		disk:       fullDisk{limit: n.cfg.Gate.Room.DiskLimit},
		opens:      threshold{at: shareOfOpens, calm: calmMemory},
		all:        threshold{at: shareOfAll, calm: calmMemory},
		complaints: rate.Sometimes{Interval: complaintInterval},
	}
}

// heapInUse reads [Measures.Heap] from the runtime.
func heapInUse() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// run looks again and again, until ctx ends.
func (r *room) run(ctx context.Context) error {
	r.logger.Info("memory", "limit", r.memory.Limit, "from", string(r.memory.From))
	ticker := r.pulse.Ticker(r.interval)
	defer ticker.Stop()
	for {
		r.look()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// watchDisk measures the disk again and again, until ctx ends.
func (r *room) watchDisk(ctx context.Context) error {
	ticker := r.pulse.Ticker(r.interval)
	defer ticker.Stop()
	for {
		r.measureDisk()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *room) measureDisk() {
	disk, err := r.measures.Disk()
	if err != nil { // the watchdog judges the disk
		r.complaints.Do(func() { r.logger.Warn("room on the disk not known", "error", err) })
		return
	}
	r.state.disk.Store(&disk)
	full, changed := r.disk.look(disk)
	r.state.full.Store(full)
	if changed {
		r.changed()
	}
	switch reserve := r.reserve(); {
	case changed && full:
		r.logger.Warn("the disk is full: other nodes are to lead and to serve the clients; if no quorum has room, every node "+
			"refuses opens and writes", "free", disk.Free, "reserve", reserve, "enough", disk.enough(r.disk.limit))
	case changed:
		r.logger.Info("the disk has room again", "free", disk.Free, "reserve", reserve)
	}
}

// look takes what is known of the disks, measures the memory, and tells the gate.
func (r *room) look() {
	r.lookAtDisks()
	r.lookAtMemory()
	diskHold, memoryHold := r.state.diskHold.Load(), r.state.memoryHold.Load()
	for k := range gate.Kinds {
		switch {
		case diskHold != nil && gate.Budget(k, gate.OfDisk) != "":
			r.gate.Hold(k, &gate.Hold{Scope: gate.OfDisk, Limit: *diskHold})
		case memoryHold != nil && (k == gate.Opens || r.all.over):
			r.gate.Hold(k, &gate.Hold{Scope: gate.OfMemory, Limit: *memoryHold})
		default:
			r.gate.Hold(k, nil)
		}
	}
}

func (r *room) lookAtDisks() {
	if !r.noRoom() {
		r.state.diskHold.Store(nil)
		return
	}
	hold := "fewer voters than a quorum have free disk space"
	if full := r.fullDisks(); len(full) > 0 {
		hold += "; full: nodes " + nodesText(full)
	}
	r.state.diskHold.Store(&hold)
}

func (r *room) lookAtMemory() {
	heap := r.measures.Heap()
	r.state.heap.Store(heap)
	if r.memory.Limit == 0 {
		return
	}
	share := float64(heap) / float64(r.memory.Limit)
	opens, all := r.opens.look(share), r.all.look(share)
	hold := fmt.Sprintf("%d bytes from %s", r.memory.Limit, r.memory.From)
	switch {
	case (opens || all) && r.opens.over:
		r.state.memoryHold.Store(&hold)
		r.logger.Warn("little memory is left", "in use", heap, "limit", r.memory.Limit, "refused", r.refusedForMemory())
	case (opens || all) && !r.opens.over:
		r.state.memoryHold.Store(nil)
		r.logger.Info("there is memory again", "in use", heap, "limit", r.memory.Limit)
	}
}

func (r *room) refusedForMemory() string {
	if r.all.over {
		return "opens, resumes and writes"
	}
	return "opens"
}

// full reports whether this node's disk is full (O5).
func (r *room) full() bool { return r.state.full.Load() }

// free returns how many bytes are free on the disk.
func (r *room) free() uint64 { return r.measured().Free }

// reserve returns how many bytes must be free on the disk: with less it is full.
func (r *room) reserve() uint64 { return r.measured().Reserve(r.disk.limit) }

// measured returns what the disk has told last.
func (r *room) measured() Disk {
	if disk := r.state.disk.Load(); disk != nil {
		return *disk
	}
	return Disk{}
}

// left returns a [session.LimitError] while what adds to the log is refused for want of room on disks. The leader asks
// it for the requests of other nodes, which may not have heard of the full disk yet.
func (r *room) left() error {
	if hold := r.state.diskHold.Load(); hold != nil {
		return &session.LimitError{Name: "disk_limit", Limit: *hold, RetryAfter: r.interval}
	}
	return nil
}

// warning says whether the disk is full, and what is refused and why; nothing while there is room.
func (r *room) warning() string {
	var all []string
	if r.full() {
		all = append(all, fmt.Sprintf("the disk is full: %d MiB are free, and must be %d MiB", r.free()>>20,
			r.measured().enough(r.disk.limit)>>20))
	}
	if hold := r.state.diskHold.Load(); hold != nil {
		all = append(all, "opens and writes are refused: over the limit disk_limit ("+*hold+")")
	}
	if hold := r.state.memoryHold.Load(); hold != nil {
		all = append(all, "requests are refused: over the limit memory_limit ("+*hold+")")
	}
	return strings.Join(all, "; ")
}

func nodesText(nodes []session.Node) string {
	texts := make([]string, len(nodes))
	for i, n := range nodes {
		texts[i] = strconv.Itoa(int(n))
	}
	return strings.Join(texts, ", ")
}
