package health

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"holdfast/session"
	"holdfast/transport/ratelimit"
)

// warningInterval is the shortest time between two warnings about a lasting condition.
const warningInterval = 10 * time.Second

// Measures read the use of the machine. Tests replace them.
type Measures struct {
	// Disk returns the size of the data directory's file system.
	Disk func() (Disk, error)
	// Heap returns the bytes of the objects that the last garbage collection found in use.
	Heap func() uint64
}

// ResourcesConfig has a node's functions and settings for [NewResources].
type ResourcesConfig struct {
	Logger hclog.Logger
	Pulse  session.Pulse
	// Interval is the time between two measurements.
	Interval time.Duration
	// Dir is the data directory, DiskLimit the setting disk_limit.
	Dir       string
	DiskLimit int
	Memory    Memory
	// Measures replace the defaults where set.
	Measures Measures
	// DisksFull reports whether the leader has found that the voters with free disk space are no quorum. FullDisks are
	// the members with full disks, according to the leader.
	DisksFull func() bool
	FullDisks func() []session.Node
	// Limiter refuses requests.
	Limiter *ratelimit.Limiter
	// DiskChanged is called when the disk has become full, or is no longer full.
	DiskChanged func()
}

// Resources watches disk and memory, and makes the rate limits refuse requests that need more of either (O5 full
// disks). Closes, expiries and touches continue. Run and WatchDisk belong to one goroutine each, so that a disk that
// hangs delays only WatchDisk. The other methods are safe for concurrent use.
type Resources struct {
	cfg ResourcesConfig

	// disk and warnings belong to WatchDisk; opens and all belong to Run.
	disk       fullDisk
	warnings   rate.Sometimes
	opens, all threshold

	// measured is the last measurement of the disk; nil before the first.
	measured atomic.Pointer[Disk]
	heap     atomic.Uint64
	// full says that this node's disk is full. While the disk does not answer, the last measurement counts.
	full atomic.Bool
	// diskHold and memoryHold name the exceeded limit; nil while no requests are refused.
	diskHold, memoryHold atomic.Pointer[string]
}

// NewResources returns a Resources without measurements.
func NewResources(cfg ResourcesConfig) *Resources {
	if cfg.Measures.Disk == nil {
		cfg.Measures.Disk = func() (Disk, error) { return DiskOf(cfg.Dir) }
	}
	if cfg.Measures.Heap == nil {
		cfg.Measures.Heap = heapInUse
	}
	return &Resources{
		cfg:      cfg,
		disk:     fullDisk{limit: cfg.DiskLimit},
		opens:    threshold{at: shareOfOpens, hysteresis: memoryHysteresis},
		all:      threshold{at: shareOfAll, hysteresis: memoryHysteresis},
		warnings: rate.Sometimes{Interval: warningInterval},
	}
}

// Run measures the memory and sets the rate limits at each interval, until ctx ends.
func (r *Resources) Run(ctx context.Context) error {
	r.cfg.Logger.Info("memory", "limit", r.cfg.Memory.Limit, "from", string(r.cfg.Memory.From))
	return r.every(ctx, r.setLimits)
}

// WatchDisk measures the disk at each interval, until ctx ends.
func (r *Resources) WatchDisk(ctx context.Context) error { return r.every(ctx, r.measureDisk) }

func (r *Resources) every(ctx context.Context, f func()) error {
	ticker := r.cfg.Pulse.Ticker(r.cfg.Interval)
	defer ticker.Stop()
	for {
		f()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *Resources) measureDisk() {
	disk, err := r.cfg.Measures.Disk()
	if err != nil { // the watchdog checks the disk
		r.warnings.Do(func() { r.cfg.Logger.Warn("free disk space is unknown", "error", err) })
		return
	}
	r.measured.Store(&disk)
	full, changed := r.disk.update(disk)
	r.full.Store(full)
	if changed {
		r.cfg.DiskChanged()
	}
	switch reserve := disk.Reserve(r.cfg.DiskLimit); {
	case changed && full:
		r.cfg.Logger.Warn("the disk is full: leadership and clients move to nodes with free space; without a quorum "+
			"of them, every node refuses opens and writes", "free", disk.Free, "reserve", reserve,
			"enough", disk.enough(r.cfg.DiskLimit))
	case changed:
		r.cfg.Logger.Info("the disk has free space again", "free", disk.Free, "reserve", reserve)
	}
}

// setLimits measures the memory, and sets which requests the rate limits refuse.
func (r *Resources) setLimits() {
	r.checkDisks()
	r.checkMemory()
	diskHold, memoryHold := r.diskHold.Load(), r.memoryHold.Load()
	for k := range ratelimit.Kinds {
		switch {
		case diskHold != nil && ratelimit.LimitName(k, ratelimit.OfDisk) != "":
			r.cfg.Limiter.Hold(k, &ratelimit.Hold{Scope: ratelimit.OfDisk, Limit: *diskHold})
		case memoryHold != nil && (k == ratelimit.Opens || r.all.exceeded):
			r.cfg.Limiter.Hold(k, &ratelimit.Hold{Scope: ratelimit.OfMemory, Limit: *memoryHold})
		default:
			r.cfg.Limiter.Hold(k, nil)
		}
	}
}

func (r *Resources) checkDisks() {
	if !r.cfg.DisksFull() {
		r.diskHold.Store(nil)
		return
	}
	hold := "fewer voters than a quorum have free disk space"
	if full := r.cfg.FullDisks(); len(full) > 0 {
		texts := make([]string, len(full))
		for i, n := range full {
			texts[i] = strconv.Itoa(int(n))
		}
		hold += "; full: nodes " + strings.Join(texts, ", ")
	}
	r.diskHold.Store(&hold)
}

func (r *Resources) checkMemory() {
	heap := r.cfg.Measures.Heap()
	r.heap.Store(heap)
	limit := r.cfg.Memory.Limit
	if limit == 0 {
		return
	}
	share := float64(heap) / float64(limit)
	opens, all := r.opens.update(share), r.all.update(share)
	if !opens && !all {
		return
	}
	if !r.opens.exceeded {
		r.memoryHold.Store(nil)
		r.cfg.Logger.Info("memory is sufficient again", "in use", heap, "limit", limit)
		return
	}
	hold := fmt.Sprintf("%d bytes from %s", limit, r.cfg.Memory.From)
	r.memoryHold.Store(&hold)
	refused := "opens"
	if r.all.exceeded {
		refused = "opens, resumes and writes"
	}
	r.cfg.Logger.Warn("memory is low", "in use", heap, "limit", limit, "refused", refused)
}

// DiskFull reports whether this node's disk is full (O5).
func (r *Resources) DiskFull() bool { return r.full.Load() }

// lastMeasured returns the last measurement of the disk.
func (r *Resources) lastMeasured() Disk {
	if disk := r.measured.Load(); disk != nil {
		return *disk
	}
	return Disk{}
}

// Refusal returns a [session.LimitError] while opens and writes are refused because disks are full. The leader calls it
// for the requests of other nodes, which may not know about the full disks yet.
func (r *Resources) Refusal() error {
	if hold := r.diskHold.Load(); hold != nil {
		return &session.LimitError{Name: "disk_limit", Limit: *hold, RetryAfter: r.cfg.Interval}
	}
	return nil
}

// ResourceStats are the last measurements of disk and memory.
type ResourceStats struct {
	Disk    Disk
	Reserve uint64
	// Heap is the memory in use.
	Heap   uint64
	Memory Memory
	// RefusingForDisk and RefusingForMemory say that requests are refused.
	RefusingForDisk, RefusingForMemory bool
}

// Stats returns the present figures.
func (r *Resources) Stats() ResourceStats {
	disk := r.lastMeasured()
	return ResourceStats{
		Disk: disk, Reserve: disk.Reserve(r.cfg.DiskLimit), Heap: r.heap.Load(), Memory: r.cfg.Memory,
		RefusingForDisk: r.diskHold.Load() != nil, RefusingForMemory: r.memoryHold.Load() != nil,
	}
}

// Warning says that the disk is full, and which requests are refused and why; empty if there is no problem.
func (r *Resources) Warning() string {
	var all []string
	if r.DiskFull() {
		disk := r.lastMeasured()
		all = append(all, fmt.Sprintf("the disk is full: %d MiB are free, and must be %d MiB", disk.Free>>20,
			disk.enough(r.cfg.DiskLimit)>>20))
	}
	if hold := r.diskHold.Load(); hold != nil {
		all = append(all, "opens and writes are refused: over the limit disk_limit ("+*hold+")")
	}
	if hold := r.memoryHold.Load(); hold != nil {
		all = append(all, "requests are refused: over the limit memory_limit ("+*hold+")")
	}
	return strings.Join(all, "; ")
}
