// Package watchdog decides when a node has stalled. Callers report the operations in flight and the time.
package watchdog

import (
	"fmt"
	"sync"
	"time"
)

// reason says what a node stalls on.
type reason int

const (
	// OnDisk is a write to Raft's log or to its votes.
	OnDisk reason = iota
	// OnApply is the state machine's applying of an entry that another voter has applied.
	OnApply
	// OnDirectory is a data directory that was removed, moved or replaced. It is no operation, and lasts until the
	// directory is back.
	OnDirectory
	// Reasons is the number of reasons.
	Reasons
)

func (r reason) String() string { return [Reasons]string{"disk", "apply", "directory"}[r] }

// scansPerLimit is the number of scans in the time of one limit.
const scansPerLimit = 8

// operation is an operation in flight that must end soon.
type operation struct {
	number uint64
	Reason reason
	Doing  string
	// index is that of the entry, of an operation of OnApply.
	index uint64
	// began is when the operation began. late is the lateness of scans until then.
	began time.Duration
	late  lateness
}

// lateness is the time by which scans came late, in total.
type lateness struct {
	// paused counts scans that were late by more than the limit: the process did not run. slow counts all other scans.
	paused, slow time.Duration
}

// plus returns l with one more scan that was late by a time.
func (l lateness) plus(late, limit time.Duration) lateness {
	switch {
	case late > limit:
		l.paused += late
	case late > 0:
		l.slow += late
	}
	return l
}

// Watchdog notices that this node stalls: a write or the applying of an entry lasts longer than a limit, or the process
// itself does not run. Raft does not notice: a leader with a hanging disk keeps sending heartbeats and leads for
// ever. A follower with a hanging disk keeps answering them, so that a leader without a quorum of disks stays leader.
//
// The watchdog decides only from what its callers report and from its clock. Time by which its own scans came late does
// not count: a process that was paused in the middle of a write has not waited for the disk. For scans that are each
// late by at most the limit, an operation is credited with one limit in total. So the watchdog notices a hanging disk
// after three limits and a period, even if the process is always late. Safe for concurrent use.
type Watchdog struct {
	Limit, Period time.Duration
	now           func() time.Time
	base          time.Time

	mu sync.Mutex
	// scanned is the time of the latest scan. late is the lateness of all scans. scanning says that scans have begun.
	// guarded by mu
	scanned  time.Duration
	late     lateness
	scanning bool
	// under has the operations in flight, oldest first. guarded by mu
	under []operation
	// number is the number of the newest operation. guarded by mu
	number uint64
	// lost says what is wrong with the data directory, zero for nothing. guarded by mu
	lost operation
	// stalls has for each reason the operation that had lasted longer than the limit at the latest scan, zero for none.
	// guarded by mu
	stalls [Reasons]operation
	// stalled counts the stalls of each reason. pauses counts the scans that were late by more than the limit.
	// guarded by mu
	stalled [Reasons]uint64
	pauses  uint64
	// elsewhere is the highest index that another voter has applied, as far as is known. guarded by mu
	elsewhere uint64
	// failure is why the node has stepped out for good, nil while it has not. guarded by mu
	failure error
}

// NewWatchdog returns a watchdog that reads the time from now. The times must have a monotonic reading.
func NewWatchdog(limit time.Duration, now func() time.Time) *Watchdog {
	return &Watchdog{Limit: limit, Period: limit / scansPerLimit, now: now, base: now()}
}

// moment returns the time since the watchdog was made.
func (w *Watchdog) moment() time.Duration { return w.now().Sub(w.base) }

// overdue returns by how much the next scan is late at a moment. Called with mu held.
func (w *Watchdog) overdue(moment time.Duration) time.Duration {
	if !w.scanning {
		return 0
	}
	return max(0, moment-w.scanned-w.Period)
}

// lasted returns how long o has lasted at a moment, without the time that does not count. late is the lateness of scans
// until that moment. Called with mu held.
func (w *Watchdog) lasted(o operation, moment time.Duration, late lateness) time.Duration {
	return moment - o.began - (late.paused - o.late.paused) - min(late.slow-o.late.slow, w.Limit)
}

// Begin notes that an operation begins now, and returns its number for End.
func (w *Watchdog) Begin(r reason, doing string) uint64 {
	return w.begin(operation{Reason: r, Doing: doing})
}

// BeginApply notes that the applying of the entry at an index begins now, and returns its number for End.
func (w *Watchdog) BeginApply(index uint64) uint64 {
	return w.begin(operation{Reason: OnApply, Doing: "applying a log entry", index: index})
}

func (w *Watchdog) begin(o operation) uint64 {
	moment := w.moment()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.number++
	o.number, o.began = w.number, moment
	o.late = w.late.plus(w.overdue(moment), w.Limit) // a scan that is late now counts, though it has not come yet
	w.under = append(w.under, o)
	return w.number
}

// End notes that an operation has ended.
func (w *Watchdog) End(number uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.under {
		if w.under[i].number == number {
			w.under = append(w.under[:i], w.under[i+1:]...)
			return
		}
	}
}

// Directory notes the error of a check of the data directory, nil for none.
func (w *Watchdog) Directory(wrong error) {
	moment := w.moment()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case wrong == nil:
		w.lost = operation{}
	case w.lost.number == 0:
		w.number++
		w.lost = operation{number: w.number, Reason: OnDirectory, Doing: wrong.Error(), began: moment, late: w.late}
	}
}

// AppliedElsewhere notes the highest index that another voter has applied. An entry that no other voter has applied is
// heavy, or every node has the same trouble with it: if this node stepped out, no other could take its place.
func (w *Watchdog) AppliedElsewhere(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.elsewhere = max(w.elsewhere, index)
}

// Start notes that scans come each period from now on.
func (w *Watchdog) Start() {
	moment := w.moment()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scanned, w.scanning = moment, true
}

// Finding is what a scan found.
type Finding struct {
	// Began has the operations that have become a stall, Ended the operations that no longer are one. Lasted is how
	// long each has lasted.
	Began, Ended []stall
	// Paused is the lateness of the scan when it is more than the limit, else 0.
	Paused time.Duration
}

type stall struct {
	operation
	Lasted time.Duration
}

// Scan checks the operations in flight for stalls.
func (w *Watchdog) Scan() Finding {
	moment := w.moment()
	w.mu.Lock()
	defer w.mu.Unlock()
	var f Finding
	late := max(0, moment-w.scanned-w.Period)
	w.late = w.late.plus(late, w.Limit)
	if late > w.Limit {
		w.pauses++
		f.Paused = late
	}
	w.scanned = moment
	for r := range Reasons {
		before, after := w.stalls[r], w.stalling(r)
		if before.number == after.number {
			continue
		}
		w.stalls[r] = after
		// When each write stalls, each is a stall of its own: nothing says that the next write will be faster.
		if before.number != 0 {
			f.Ended = append(f.Ended, stall{before, w.lasted(before, moment, w.late)})
		}
		if after.number != 0 {
			w.stalled[r]++
			f.Began = append(f.Began, stall{after, w.lasted(after, moment, w.late)})
		}
	}
	return f
}

// stalling returns the oldest operation of a reason if it had lasted longer than the limit at the latest scan, else the
// zero operation. Called with mu held.
func (w *Watchdog) stalling(r reason) operation {
	if r == OnDirectory {
		return w.lost
	}
	for _, o := range w.under {
		if o.Reason == r {
			if w.lasted(o, w.scanned, w.late) > w.Limit && o.index <= w.elsewhere {
				return o
			}
			break
		}
	}
	return operation{}
}

// stallError says that the node stalls.
type stallError struct {
	reason reason
	doing  string
	lasted time.Duration
}

func (e *stallError) Error() string {
	if e.reason == OnDirectory {
		return e.doing
	}
	return fmt.Sprintf("stalled: %s has lasted %v", e.doing, e.lasted.Round(time.Millisecond))
}

// Leave notes why the node steps out for good. Only the first call counts.
func (w *Watchdog) Leave(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		w.failure = why
	}
}

// Check returns a [stallError] if the node stalled at the latest scan, and the reason once the node has stepped out for
// good.
func (w *Watchdog) Check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure != nil {
		return w.failure
	}
	for _, o := range w.stalls {
		if o.number != 0 {
			return &stallError{o.Reason, o.Doing, w.lasted(o, w.scanned, w.late)}
		}
	}
	return nil
}

// Waits returns how long the oldest operation in flight has lasted.
func (w *Watchdog) Waits() time.Duration {
	moment := w.moment()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.under) == 0 {
		return 0
	}
	return w.lasted(w.under[0], moment, w.late.plus(w.overdue(moment), w.Limit))
}

// StallStats are the figures of a [Watchdog].
type StallStats struct {
	// Stalls says for each reason whether the node stalls on it.
	Stalls [Reasons]bool
	// Stalled counts stalls since the start. Paused counts the times that the process did not run.
	Stalled [Reasons]uint64
	Paused  uint64
}

// Stats returns the present figures.
func (w *Watchdog) Stats() StallStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := StallStats{Stalled: w.stalled, Paused: w.pauses}
	for r, o := range w.stalls {
		s.Stalls[r] = o.number != 0
	}
	return s
}
