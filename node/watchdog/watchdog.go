// Package watchdog decides when a node has stalled. It is told what is under way and what time it is.
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

// looksPerLimit is the number of looks in the time of one limit.
const looksPerLimit = 8

// operation is an operation under way that must end soon.
type operation struct {
	number uint64
	Reason reason
	Doing  string
	// index is that of the entry, of an operation of OnApply.
	index uint64
	// began is when the operation began. late is the lateness of looks until then.
	began time.Duration
	late  lateness
}

// lateness is the time by which looks came late, in total.
type lateness struct {
	// paused counts looks that were late by more than the limit: the process did not run. slow counts all other looks.
	paused, slow time.Duration
}

// plus returns l with one more look that was late by a time.
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
// itself does not run. Raft does not notice: a leader with a hanging disk goes on sending heartbeats and leads for
// ever. A follower with a hanging disk goes on answering them, so that a leader without a quorum of disks stays leader.
//
// The watchdog decides only from what its callers report and from its clock. Time by which its own looks came late does
// not count: a process that was paused in the middle of a write has not waited for the disk. For looks that are each
// late by at most the limit, an operation is credited with one limit in total. So the watchdog notices a hanging disk
// after three limits and a period, even if the process is always late. Safe for concurrent use.
type Watchdog struct {
	Limit, Period time.Duration
	now           func() time.Time
	base          time.Time

	mu sync.Mutex
	// looked is when the latest look was. late is the lateness of all looks. looks says that looks have begun.
	// guarded by mu
	looked time.Duration
	late   lateness
	looks  bool
	// under has the operations under way, oldest first. guarded by mu
	under []operation
	// number is the number of the newest operation. guarded by mu
	number uint64
	// lost says what is wrong with the data directory, zero for nothing. guarded by mu
	lost operation
	// stalls has for each reason the operation that had lasted longer than the limit at the latest look, zero for none.
	// guarded by mu
	stalls [Reasons]operation
	// stalled counts the stalls of each reason. pauses counts the looks that were late by more than the limit.
	// guarded by mu
	stalled [Reasons]uint64
	pauses  uint64
	// elsewhere is the highest index that another voter has applied, as far as is known. guarded by mu
	elsewhere uint64
	// gone says why the node has stepped out for good, nil while it has not. guarded by mu
	gone error
}

// NewWatchdog returns a watchdog that reads the time from now. The times must have a monotonic reading.
func NewWatchdog(limit time.Duration, now func() time.Time) *Watchdog {
	return &Watchdog{Limit: limit, Period: limit / looksPerLimit, now: now, base: now()}
}

// moment returns the time since the watchdog was made.
func (w *Watchdog) moment() time.Duration { return w.now().Sub(w.base) }

// overdue returns by how much the next look is late at a moment. Called with mu held.
func (w *Watchdog) overdue(moment time.Duration) time.Duration {
	if !w.looks {
		return 0
	}
	return max(0, moment-w.looked-w.Period)
}

// lasted returns how long o has lasted at a moment, without the time that does not count. late is the lateness of looks
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
	o.late = w.late.plus(w.overdue(moment), w.Limit) // a look that is late now counts, though it has not come yet
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

// Start notes that looks come each period from now on.
func (w *Watchdog) Start() {
	moment := w.moment()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked, w.looks = moment, true
}

// Finding is the news of a look.
type Finding struct {
	// Began has the operations that have become a stall, Ended the operations that no longer are one. Lasted is how
	// long each has lasted.
	Began, Ended []stall
	// Paused is the lateness of the look when it is more than the limit, else 0.
	Paused time.Duration
}

type stall struct {
	operation
	Lasted time.Duration
}

// Look judges the operations under way.
func (w *Watchdog) Look() Finding {
	moment := w.moment()
	w.mu.Lock()
	defer w.mu.Unlock()
	var f Finding
	late := max(0, moment-w.looked-w.Period)
	w.late = w.late.plus(late, w.Limit)
	if late > w.Limit {
		w.pauses++
		f.Paused = late
	}
	w.looked = moment
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

// stalling returns the oldest operation of a reason if it had lasted longer than the limit at the latest look, else the
// zero operation. Called with mu held.
func (w *Watchdog) stalling(r reason) operation {
	if r == OnDirectory {
		return w.lost
	}
	for _, o := range w.under {
		if o.Reason == r {
			if w.lasted(o, w.looked, w.late) > w.Limit && o.index <= w.elsewhere {
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
	if w.gone == nil {
		w.gone = why
	}
}

// Check returns a [stallError] if the node stalled at the latest look, and the reason once the node has stepped out for
// good.
func (w *Watchdog) Check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone != nil {
		return w.gone
	}
	for _, o := range w.stalls {
		if o.number != 0 {
			return &stallError{o.Reason, o.Doing, w.lasted(o, w.looked, w.late)}
		}
	}
	return nil
}

// Waits returns how long the oldest operation under way has lasted.
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
