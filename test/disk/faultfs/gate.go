package faultfs

import (
	"sync"
	"syscall"
	"time"
)

// Op is a kind of operation of a file system.
type Op int

// Kinds of operations.
const (
	// Look reads names and attributes and opens files.
	Look Op = iota
	// Read reads content.
	Read
	// Write changes content or size.
	Write
	// Sync is an fsync of a file or a directory.
	Sync
	// Name makes, renames and removes files and directories.
	Name
	ops
)

// Faults are the faults of a disk. The zero value is a healthy disk.
type Faults struct {
	// Fail answers with an error, after Slow and Hang. A failed fsync has made nothing durable.
	Fail map[Op]syscall.Errno
	// Slow delays operations.
	Slow map[Op]time.Duration
	// Hang holds operations until other faults are set.
	Hang map[Op]bool
	// Full refuses operations that need new space.
	Full bool
	// Lie answers an fsync without making anything durable.
	Lie bool
}

// Counts counts a disk's operations and the hits of its faults, since the mount.
type Counts struct {
	// Ops counts the requested operations; Failed, Slowed and Held those that met the fault.
	Ops, Failed, Slowed, Held [ops]uint64
	// Full counts refusals for lack of space, Lied the fsyncs that did nothing.
	Full, Lied uint64
	// Holding is the number of operations that are held now.
	Holding int
}

// gate lets operations through, or makes them meet the faults or a power cut. Safe for concurrent use.
type gate struct {
	mu     sync.Mutex
	faults Faults // guarded by mu
	counts Counts // guarded by mu
	power  power  // guarded by mu
	// fuse is the number of writes, fsyncs and changes of names until the power goes; 0 for never.
	fuse int // guarded by mu
	// changed is closed and replaced whenever held operations must look again, and when the power goes.
	changed chan struct{} // guarded by mu
}

// power is the progress of a power cut.
type power int

const (
	powerOn power = iota
	// powerGoing holds every operation: the moment of the cut.
	powerGoing
	// powerOff answers every operation with EIO.
	powerOff
)

func newGate() *gate { return &gate{changed: make(chan struct{})} }

// enter returns 0 when an operation may go on, or the error for its answer.
func (g *gate) enter(op Op) syscall.Errno {
	g.mu.Lock()
	g.counts.Ops[op]++
	g.burn(op)
	errno := g.hold(op)
	delay := g.faults.Slow[op]
	if delay > 0 {
		g.counts.Slowed[op]++
	}
	g.mu.Unlock()
	if errno != 0 {
		return errno
	}
	if delay > 0 {
		time.Sleep(delay) //nolint:forbidigo // a slow disk sleeps, and nothing interrupts it
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// The power may have gone during the delay.
	if errno := g.hold(op); errno != 0 {
		return errno
	}
	if errno := g.faults.Fail[op]; errno != 0 {
		g.counts.Failed[op]++
		return errno
	}
	return 0
}

// burn counts down to a power cut. Called with mu held.
func (g *gate) burn(op Op) {
	if g.fuse == 0 || g.power != powerOn || op == Look || op == Read {
		return
	}
	g.fuse--
	if g.fuse == 0 {
		g.power = powerGoing
		g.wake()
	}
}

// hold waits while operations of this kind are held. Called with mu held, and releases it to wait. A signal to the
// requesting program does not end the wait, as on a real disk.
func (g *gate) hold(op Op) syscall.Errno {
	for first := true; g.power == powerGoing || g.power == powerOn && g.faults.Hang[op]; first = false {
		if first {
			g.counts.Held[op]++
		}
		changed := g.changed
		g.counts.Holding++
		g.mu.Unlock()
		<-changed
		g.mu.Lock()
		g.counts.Holding--
	}
	if g.power == powerOff {
		return syscall.EIO
	}
	return 0
}

func (g *gate) wake() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// set replaces the faults. Held operations meet the new ones.
func (g *gate) set(f Faults) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = f
	g.wake()
}

// freeze waits for the moment of a power cut: after some more operations that change something, or after the bound.
func (g *gate) freeze(after int, bound time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fuse = after
	timer := time.NewTimer(bound)
	defer timer.Stop()
	for after > 0 && g.power == powerOn {
		changed := g.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			after = 0
		}
		g.mu.Lock()
	}
	g.to(powerGoing)
}

// to sets the progress of a power cut.
func (g *gate) to(p power) {
	g.power, g.fuse = p, 0
	g.wake()
}

func (g *gate) setPower(p power) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.to(p)
}

func (g *gate) is(p power) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.power == p
}

// lies reports whether an fsync does nothing, and counts it.
func (g *gate) lies() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.faults.Lie {
		g.counts.Lied++
	}
	return g.faults.Lie
}

// done counts refusals for lack of space.
func (g *gate) done(err error) error {
	if err == syscall.ENOSPC { //nolint:errorlint // simdisk returns plain Errnos
		g.mu.Lock()
		defer g.mu.Unlock()
		g.counts.Full++
	}
	return err
}

func (g *gate) stats() Counts {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counts
}
