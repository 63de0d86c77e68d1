package node

import (
	"context"
	"fmt"
	"math"
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
	// Disk returns which share of the data directory's file system is used, 0 to 1.
	Disk func() (float64, error)
	// Heap returns the bytes of the objects that the last collection of garbage has found in use.
	Heap func() uint64
}

const (
	// calmDisk is how far below disk_limit a full disk must fall to have room again: a snapshot that is written and the
	// log that is cut after it move the share to and fro.
	calmDisk = 0.05
	// shareOfOpens and shareOfAll are the shares of the memory limit beyond which opens, and resumes and writes too, are
	// refused. The collector works ever more as the heap in use comes near the limit: at nine tenths it collects ten times
	// for each time that the heap is filled.
	shareOfOpens, shareOfAll = 0.8, 0.9
	calmMemory               = 0.05
)

// threshold is passed upwards at one share, and downwards at a lower one.
type threshold struct {
	at, calm float64
	over     bool
}

// look takes the present share. at = 0 is never passed.
func (t *threshold) look(share float64) (over, changed bool) {
	was := t.over
	switch {
	case t.at > 0 && share >= t.at:
		t.over = true
	case share < t.at-t.calm:
		t.over = false
	}
	return t.over, t.over != was
}

// room looks how much of the disk and of the memory is used, and has the gate refuse what would take more (O5). What
// ends sessions or keeps them alive goes on. One goroutine calls run, and another watchDisk: asking a disk that hangs
// takes as long as the disk hangs, and holds up nothing else. The other methods are safe for concurrent use.
type room struct {
	node     session.Node
	limit    int
	memory   Memory
	measures Measures
	pulse    session.Pulse
	interval time.Duration
	logger   hclog.Logger
	// others returns the voters whose full disks have every node refuse.
	others func() []session.Node
	gate   *gate.Gate

	// disk and complaints are watchDisk's, opens and all are run's.
	disk       threshold
	complaints rate.Sometimes
	opens, all threshold
	state      roomState
}

// roomState is what the last looks have found. Safe for concurrent use.
type roomState struct {
	// disk is the share that is used, as bits.
	disk atomic.Uint64
	heap atomic.Uint64
	// full says that this node's disk is full. While the disk gives no answer, the last one counts.
	full atomic.Bool
	// diskHold and memoryHold say what is refused and why; nil while nothing is.
	diskHold, memoryHold atomic.Pointer[string]
}

func newRoom(n *Node) *room {
	measures := n.options.Measures
	if measures.Disk == nil {
		measures.Disk = diskUse(n.dir.Path)
	}
	if measures.Heap == nil {
		measures.Heap = heapInUse
	}
	limit := n.cfg.Gate.Room.DiskLimit
	return &room{
		node: n.cfg.Node, limit: limit, memory: n.options.Memory, measures: measures, pulse: n.options.pulse,
		interval: n.cfg.Sessions.HeartbeatInterval, logger: n.options.Logger,
		others:     n.server.FullDisks,
		gate:       n.ports.client.Gate(),
		disk:       threshold{at: float64(limit) / 100, calm: calmDisk},
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
	share, err := r.measures.Disk()
	if err != nil { // the watchdog judges the disk
		r.complaints.Do(func() { r.logger.Warn("room on the disk not known", "error", err) })
		return
	}
	r.state.disk.Store(math.Float64bits(share))
	full, changed := r.disk.look(share)
	r.state.full.Store(full)
	switch {
	case changed && full:
		r.logger.Warn("the disk is full: opens and writes are refused here, and everywhere if a quorum needs this node",
			"used", percent(share), "disk_limit", r.limit)
	case changed:
		r.logger.Info("the disk has room again", "used", percent(share), "disk_limit", r.limit)
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
	var hold string
	if r.full() {
		hold = fmt.Sprintf("%d percent of the disk of node %d", r.limit, r.node)
	} else if full := r.others(); len(full) > 0 {
		hold = "the disks of nodes that a quorum needs: " + nodesText(full)
	} else {
		r.state.diskHold.Store(nil)
		return
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
	_, opens := r.opens.look(share)
	_, all := r.all.look(share)
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

// full reports whether this node's disk is full.
func (r *room) full() bool { return r.state.full.Load() }

// used returns which share of the disk is used.
func (r *room) used() float64 { return math.Float64frombits(r.state.disk.Load()) }

// left returns a [session.LimitError] while what adds to the log is refused for want of room on disks. The leader asks
// it for the requests of other nodes, which may not have heard of the full disk yet.
func (r *room) left() error {
	if hold := r.state.diskHold.Load(); hold != nil {
		return &session.LimitError{Name: "disk_limit", Limit: *hold, RetryAfter: r.interval}
	}
	return nil
}

// warning says what is refused and why; nothing while there is room.
func (r *room) warning() string {
	var all []string
	if hold := r.state.diskHold.Load(); hold != nil {
		all = append(all, "opens and writes are refused: over the limit disk_limit ("+*hold+")")
	}
	if hold := r.state.memoryHold.Load(); hold != nil {
		all = append(all, "requests are refused: over the limit memory_limit ("+*hold+")")
	}
	return strings.Join(all, "; ")
}

func percent(share float64) string { return strconv.Itoa(int(math.Round(100*share))) + " %" }

func nodesText(nodes []session.Node) string {
	texts := make([]string, len(nodes))
	for i, n := range nodes {
		texts[i] = strconv.Itoa(int(n))
	}
	return strings.Join(texts, ", ")
}
