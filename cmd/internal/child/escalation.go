package child

import "time"

// escalation decides which signal a program gets as the end of its hold approaches. It has no process and no clock.
type escalation struct {
	onLost        OnLost
	grace, margin time.Duration

	stage stage
	// killAt is when a program that was sent SIGTERM is killed, whatever happens to the hold.
	killAt time.Time
}

type stage uint8

const (
	running stage = iota
	// ending: the program was sent SIGTERM, and SIGKILL will follow.
	ending
	// over: all was done that OnLost says.
	over
)

type action uint8

const (
	nothing action = iota
	terminate
	kill
	// warn: inform the user that the program runs on without the hold.
	warn
)

// next returns what to do now, and when to ask again; zero for never. until is the hold's SafeUntil, zero when the hold
// is over.
func (e *escalation) next(now, until time.Time) (do action, again time.Time) {
	switch {
	case e.stage == over:
		return nothing, time.Time{}
	case e.onLost == Continue:
		return e.warnAtEnd(now, until)
	}
	lost := until.IsZero()
	switch killAt := until.Add(-e.margin); {
	case e.stage == ending && !lost && now.Before(e.killAt):
		return nothing, e.killAt
	case e.stage == running && !lost && now.Before(killAt.Add(-e.grace)):
		return nothing, killAt.Add(-e.grace)
	case e.onLost == Term:
		e.stage = over
		return terminate, time.Time{}
	case e.stage == running && !lost && now.Before(killAt):
		e.stage, e.killAt = ending, killAt
		return terminate, killAt
	default:
		e.stage = over
		return kill, time.Time{}
	}
}

// warnAtEnd is next for a program that runs on.
func (e *escalation) warnAtEnd(now, until time.Time) (do action, again time.Time) {
	if !until.IsZero() && now.Before(until) {
		return nothing, until
	}
	e.stage = over
	return warn, time.Time{}
}
