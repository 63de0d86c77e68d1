package session

import (
	"fmt"
	"time"
)

const (
	// MaxFreeze bounds a freeze, and an extension of a session.
	MaxFreeze = 24 * time.Hour
	// MaxExtended is the number of sessions that may be extended at a time.
	MaxExtended = 4096
)

// Freeze is a time in which no session expires (Y3 freeze). It never changes.
type Freeze struct {
	// Until is the reading of the running clock at which the freeze ends by itself.
	Until time.Duration
	// Since is the time at which the leader received the operator's request, by its wall clock.
	Since time.Time
	// By is the operator, at most [MaxClientName] bytes, and Why the operator's reason, at most [MaxWhy].
	By, Why string
}

// LogTime is the time that only the log decides: two clocks, and the freeze that separates them (D3 log clock, Y3). The
// running clock advances with each entry. The log clock L stops in a freeze, so that no deadline on it passes.
type LogTime struct {
	// Log is L. Held is the total time for which L has stopped in freezes: the running clock reads Log + Held.
	Log, Held time.Duration
	// Freeze is nil while the cluster is not frozen. Its Until is then above the running clock.
	Freeze *Freeze
}

// Running returns the reading of the running clock.
func (t LogTime) Running() time.Duration { return t.Log + t.Held }

// At returns t once the running clock reads running. A clock never goes back, and a freeze ends at its bound.
func (t LogTime) At(running time.Duration) LogTime {
	passed := running - t.Running()
	if passed <= 0 {
		return t
	}
	if t.Freeze == nil {
		t.Log += passed
		return t
	}
	held := min(passed, t.Freeze.Until-t.Running())
	t.Held += held
	t.Log += passed - held
	if running >= t.Freeze.Until {
		t.Freeze = nil
	}
	return t
}

// FreezeTracker tracks freezes on the clock of one process (Y3). The zero value has seen none. Not safe for concurrent
// use.
type FreezeTracker struct {
	freeze *Freeze
	// until is when the freeze ends by itself, unfrozen when the newest freeze ended, both on the clock of the process.
	until, unfrozen time.Duration
}

// Update records the time of the state as the process knows it at now. running is the reading of the running clock at
// now as far as the process knows. Update reports whether a freeze has begun, was changed or has ended.
func (f *FreezeTracker) Update(t LogTime, running, now time.Duration) (changed bool) {
	if t.Freeze == nil {
		if f.freeze == nil {
			return false
		}
		f.unfrozen = max(f.unfrozen, min(now, f.until))
		f.freeze = nil
		return true
	}
	changed = f.freeze != t.Freeze
	f.freeze, f.until = t.Freeze, now+t.Freeze.Until-running
	return changed
}

// FullTimeoutFrom returns the moment from which, at now, every session has its full timeout: now in a freeze, and the
// end of the newest freeze afterwards. It is 0 before the first freeze.
func (f *FreezeTracker) FullTimeoutFrom(now time.Duration) time.Duration {
	if f.freeze == nil {
		return f.unfrozen
	}
	return max(f.unfrozen, min(now, f.until))
}

// Left returns the time from now in which nothing expires, unless an operator thaws the cluster before; 0 outside a
// freeze.
func (f *FreezeTracker) Left(now time.Duration) time.Duration {
	if f.freeze == nil {
		return 0
	}
	return max(f.until-now, 0)
}

// FreezeRequest stops all expiry for a time, or ends such a time.
type FreezeRequest struct {
	// For is the length of the freeze from now on, 1 ms to [MaxFreeze] in whole milliseconds, whatever freeze there was
	// before; 0 thaws.
	For time.Duration
	// By and Why are as in a [Freeze].
	By, Why string
}

// ExtendRequest keeps a silent session alive for a time.
type ExtendRequest struct {
	ID ID
	// For is the length of the extension from now on, at most [MaxFreeze] in whole milliseconds, whatever extension
	// there was before; 0 cancels an extension.
	For time.Duration
}

// CheckSpan checks the length of a freeze or of an extension. The error is a [FieldError] of "for".
func CheckSpan(d time.Duration) error {
	if d < 0 || d > MaxFreeze || d%time.Millisecond != 0 {
		return &FieldError{Field: "for", Limit: fmt.Sprintf("whole milliseconds, 0 to %s", MaxFreeze)}
	}
	return nil
}
