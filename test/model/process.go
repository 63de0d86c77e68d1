package model

// process is a node's operating-system process, with its machine.
type process struct {
	Rest, RestedAt uint8 // whether it runs, and since when it does not
	Backlog        uint8 // the sessions whose keep-alives wait in sockets since the process stopped
	Mono           uint8 // the monotonic clock
	// Vouch is since when the relay can vouch, Started since when the process runs (E1 full timeout after a change of
	// leader); on Mono, 0 for since before the history.
	Vouch, Started uint8
	Incarnation    uint8 // how often the process was started again (T6 newest stream only)
	Stalls         stalls
	Covered        uint8    // until when stalls are credited, on Mono
	Stopped        [3]uint8 // ghost: the set of ticks, in Now, in which the process did not run and noticed it
}

// Whether a process runs.
const (
	runs      uint8 = iota
	paused          // its monotonic clock continues
	suspended       // with its machine, whose monotonic clock stops
)

// stalled reports whether a process that rests will notice it: a pause longer than an interval, or a suspension by the
// wall clock.
func (p *process) stalled(now uint8) bool {
	return p.Rest == paused && now-p.RestedAt > 1 || p.Rest == suspended && now > p.RestedAt
}

// stall makes a process notice that it stalled. The credit is the time from the stall's begin until the grace is over,
// and counts no moment twice. After a suspension the time that the clock did not show is added.
func (p *process) stall(now, grace uint8) {
	length := now - p.RestedAt
	begin, credit := p.Mono, length
	if p.Rest == paused {
		begin, credit = p.Mono-length, 0
	}
	until := p.Mono + grace
	credit += until - min(max(begin, p.Covered), until)
	p.Vouch, p.Covered = p.Mono, until
	p.Stalls.add(p.Mono, credit)
	for tick := p.RestedAt + 1; tick <= now; tick++ {
		p.Stopped[tick/8] |= 1 << (tick % 8)
	}
}

// stopped counts the ticks after one moment and up to another in which the process did not run.
func (p *process) stopped(after, upTo uint8) (ticks uint8) {
	for tick := after + 1; tick <= upTo; tick++ {
		ticks += p.Stopped[tick/8] >> (tick % 8) & 1
	}
	return ticks
}

// ages returns for how long the relay could vouch, and for how long the process had run, when the relay read the table
// (E1); 0 for later starts, forever for starts before the history.
func (p *process) ages(readAt uint8) (vouch, process uint8) {
	age := func(since uint8) uint8 {
		if since == 0 {
			return forever
		}
		return max(readAt, since) - since
	}
	return age(p.Vouch), age(p.Started)
}
