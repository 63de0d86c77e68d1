package child

import "time"

// guard decides what becomes of a program as the end of its hold comes near. It knows no process and no clock.
type guard struct {
	onLost        OnLost
	grace, margin time.Duration

	stage stage
	// killAt is when a program that was sent SIGTERM is killed, whatever becomes of the hold.
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
	// warn tells the user that the program runs on without the hold.
	warn
)

// next returns what to do now, and when to ask again; zero for never. until is the hold's SafeUntil, zero when the hold
// is over.
func (g *guard) next(now, until time.Time) (do action, again time.Time) {
	switch {
	case g.stage == over:
		return nothing, time.Time{}
	case g.onLost == Continue:
		return g.bystand(now, until)
	}
	lost := until.IsZero()
	switch killAt := until.Add(-g.margin); {
	case g.stage == ending && !lost && now.Before(g.killAt):
		return nothing, g.killAt
	case g.stage == running && !lost && now.Before(killAt.Add(-g.grace)):
		return nothing, killAt.Add(-g.grace)
	case g.onLost == Term:
		g.stage = over
		return terminate, time.Time{}
	case g.stage == running && !lost && now.Before(killAt):
		g.stage, g.killAt = ending, killAt
		return terminate, killAt
	default:
		g.stage = over
		return kill, time.Time{}
	}
}

// bystand is next for a program that runs on.
func (g *guard) bystand(now, until time.Time) (do action, again time.Time) {
	if !until.IsZero() && now.Before(until) {
		return nothing, until
	}
	g.stage = over
	return warn, time.Time{}
}
