package faults

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Wires are what connects a cluster; cuts of one direction and pauses of one host add up. A simnet.Network is one.
type Wires interface {
	Cut(from, to string)
	Heal(from, to string)
	Pause(host string)
	Resume(host string)
	// Held counts what faults have held back from from to to so far.
	Held(from, to string) int
}

// Weather is what else can happen to a network. A simnet.Network has it.
type Weather interface {
	// Slow makes what from sends to to take more longer, and up to scatter besides; negative ones undo.
	Slow(from, to string, more, scatter time.Duration)
	// Reset resets the connections between two hosts, and returns how many there were.
	Reset(one, other string) int
	// Choke cuts what goes over connections to one "host:port".
	Choke(address string)
	Unchoke(address string)
	Stick(host string)
	Unstick(host string)
}

// Processes are the nodes' processes.
type Processes interface {
	// Leader returns the node that leads now, "" when none is known.
	Leader() string
	// Kill reports whether the node lived; so does Stop, which returns when its ordered stop is over. Start starts a
	// node that does not live, on what its disk holds, and does nothing to one that does.
	Kill(node string) bool
	Stop(node string) bool
	Start(node string)
	// Stand has a node's process stand, until the returned function is called: it reports whether a process stood.
	Stand(node string) (run func() bool)
	// HandOver reports whether the node has handed leadership on.
	HandOver(node string) bool
}

// Damage is what is wrong with a disk.
type Damage uint8

// Kinds of damage.
const (
	Slow Damage = iota + 1
	Full
	Failing
	Hung
)

// Disks are the nodes' disks. Methods that return undo or similar are undone by calling it, which reports whether
// anything was hit.
type Disks interface {
	// Break damages a disk; delay is what a write to a slow one takes.
	Break(node string, d Damage, delay time.Duration) (undo func() bool)
	// Tear kills the node at its next write. Torn reports whether that has happened.
	Tear(node string) (torn func() bool)
	// Age takes the newest snapshot of a node that is dead away, Empty all that it has; they report whether that was
	// possible.
	Age(node string) bool
	Empty(node string) bool
}

// World is what surrounds nodes.
type World interface {
	// SetClock sets the wall clock of a node forward.
	SetClock(node string, forward time.Duration) (undo func() bool)
	// Flood opens sessions at once, for clients that vanish; it returns how many it has asked for.
	Flood(ctx context.Context, sessions int) int
	// Double sends requests twice until ctx ends, and returns how many.
	Double(ctx context.Context) int
}

// Cluster is what faults are injected into. Its methods are called from several goroutines.
type Cluster interface {
	Wires
	Weather
	Processes
	Disks
	World
	Hosts
}

// Hosts are names; a client's is never a node's. Callers are the clients, and those besides whose links only may be
// bad.
type Hosts interface {
	Nodes() []string
	Clients() []string
	Callers() []string
}

// Log hears of faults. The text of an end is that of its begin; hit says that something was really held back, killed or
// damaged. Who is the only node that the fault concerns, "" when it concerns several.
type Log interface {
	Began(k Kind, who, text string)
	Ended(k Kind, who, text string, hit bool)
}

// Run injects plans into c, side by side, and returns when every fault has ended; when ctx ends, it ends them at once.
// Faults are numbered through all plans.
func Run(ctx context.Context, c Cluster, log Log, plans ...[]Fault) {
	var running sync.WaitGroup
	defer running.Wait()
	number := 1
	for _, plan := range plans {
		first := number
		running.Go(func() { run(ctx, c, log, plan, first) })
		number += len(plan)
	}
}

// run injects one plan, whose first fault has a number.
func run(ctx context.Context, c Cluster, log Log, plan []Fault, first int) {
	var running sync.WaitGroup
	defer running.Wait()
	for i, f := range plan {
		if !f.Overlaps {
			running.Wait()
		}
		if !sleep(ctx, f.After) {
			return
		}
		running.Go(func() {
			lasting, end := context.WithTimeout(ctx, f.Lasts)
			defer end()
			b := begin(lasting, f, c)
			if b == nil {
				return
			}
			text := fmt.Sprintf("%d: %s", first+i, b.text)
			log.Began(f.Kind, b.who, text)
			<-lasting.Done()
			hit := b.end()
			log.Ended(f.Kind, b.who, text, hit)
		})
	}
}

// sleep waits for d, and reports whether ctx lasted as long.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
