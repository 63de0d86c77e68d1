package faults

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Wires connects a cluster. Cuts of one direction and pauses of one host add up. A simnet.Network is a Wires.
type Wires interface {
	Dials
	Cut(from, to string)
	Heal(from, to string)
	Pause(host string)
	Resume(host string)
	// Held counts the writes and dials that faults have held back from one host to another so far.
	Held(from, to string) int
}

// Weather is the network's other faults. A simnet.Network has them.
type Weather interface {
	// Slow makes a link slower, by more and by up to scatter in addition. Negative values undo it.
	Slow(from, to string, more, scatter time.Duration)
	// Reset resets the connections between two hosts, and returns their number.
	Reset(one, other string) int
	// Choke cuts the connections to one "host:port".
	Choke(address string)
	Unchoke(address string)
	Stick(host string)
	Unstick(host string)
}

// Dials are faults of dials.
type Dials interface {
	// Refuse makes dials from one host to another fail as if no process listened there. Admit undoes one Refuse.
	Refuse(from, to string)
	Admit(from, to string)
}

// Processes is the nodes' processes.
type Processes interface {
	// Leader returns the node that leads now, "" if none is known.
	Leader() string
	// Kill reports whether the node was alive; so does Stop, which returns when the ordered stop is over. Start starts
	// a dead node on the contents of its disk, and does nothing to a living node.
	Kill(node string) bool
	Stop(node string) bool
	Start(node string)
	// Suspend stops a node's process until run is called. run reports whether a process was stopped.
	Suspend(node string) (run func() bool)
	// HandOver reports whether the node has handed leadership over.
	HandOver(node string) bool
}

// Damage is a fault of a disk.
type Damage uint8

// Kinds of damage.
const (
	Slow Damage = iota + 1
	Full
	Failing
	Hung
)

// Disks is the nodes' disks. A returned undo ends the fault, and reports whether anything was hit.
type Disks interface {
	// Break damages a disk. delay is the time of a write to a slow disk.
	Break(node string, d Damage, delay time.Duration) (undo func() bool)
	// Tear kills the node at its next write. Torn reports whether that has happened.
	Tear(node string) (torn func() bool)
	// Age removes the newest snapshot of a dead node, Empty its whole directory. They report whether that was possible.
	Age(node string) bool
	Empty(node string) bool
}

// World is the surroundings of nodes, and their operators.
type World interface {
	Operator
	// SetClock sets the wall clock of a node forward.
	SetClock(node string, forward time.Duration) (undo func() bool)
	// Flood opens sessions at once, for clients that vanish. It returns the number of requests.
	Flood(ctx context.Context, sessions int) int
	// Dawdle slows a node's application of entries. undo reports whether an entry was applied meanwhile.
	Dawdle(node string, each time.Duration) (undo func() bool)
	// Cross holds each message between a node and the leader back for a random time, up to most. Messages of one stream
	// keep their order. undo reports whether a message was held.
	Cross(node string, most time.Duration) (undo func() bool)
	// Double sends requests twice until ctx ends, and returns their number.
	Double(ctx context.Context) int
}

// Operator is an operator of a cluster. A returned undo reverts an act, and reports whether the act was done.
type Operator interface {
	// Drain drains a node.
	Drain(node string) (undo func() bool)
	// Freeze freezes the cluster for a time.
	Freeze(lasts time.Duration) (undo func() bool)
	// EndSessions ends sessions and Extend keeps some, until ctx ends: the more often, the larger size is. They return
	// how many times that was done.
	EndSessions(ctx context.Context, size float64) int
	Extend(ctx context.Context, size float64) int
	Registrar
}

// Registrar is who changes the members of a cluster. An empty name says that nothing is to be changed now. A returned
// done waits until the change has come about, and reports whether it did.
type Registrar interface {
	// Add starts a new node and adds it, for a vote if promote is set.
	Add(promote bool) (node string, done func() bool)
	// Demote demotes a member; its end promotes it again. Remove removes a member, which ends some time later, the
	// later the larger size is. They choose another member if this node is none, or must stay.
	Demote(node string) (demoted string, done func() bool)
	Remove(node string, size float64) (removed string, done func() bool)
	Transfer(node string) (done func() bool)
}

// Cluster is the target of faults. Its methods are called from several goroutines.
type Cluster interface {
	Wires
	Weather
	Processes
	Disks
	World
	Hosts
}

// Hosts names the hosts. A client's name is never a node's. Callers are the clients, and further hosts of which only
// the links may fail.
type Hosts interface {
	Nodes() []string
	Clients() []string
	Callers() []string
}

// Log receives the begin and end of faults. Both texts of a fault are the same. hit reports that the fault held
// something back, killed or damaged something. who is the only node concerned, "" for several nodes.
type Log interface {
	// Nears is called shortly before a fault starts: clients then make many requests, which the fault interrupts.
	Nears()
	Began(k Kind, who, text string)
	Ended(k Kind, who, text string, hit bool)
}

// Run injects plans into c, side by side, and returns when every fault has ended. When ctx ends, it ends all faults at
// once. Faults are numbered through all plans.
func Run(ctx context.Context, c Cluster, log Log, plans ...[]Fault) {
	RunFrom(ctx, c, log, 1, plans...)
}

// RunFrom is Run for plans that follow others. Their first fault has the given number.
func RunFrom(ctx context.Context, c Cluster, log Log, number int, plans ...[]Fault) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, plan := range plans {
		first := number
		running.Go(func() { run(ctx, c, log, plan, first) })
		number += len(plan)
	}
}

// run injects one plan. Its first fault has the number first.
func run(ctx context.Context, c Cluster, log Log, plan []Fault, first int) {
	var running sync.WaitGroup
	defer running.Wait()
	for i, f := range plan {
		if !f.Overlaps {
			running.Wait()
		}
		if !sleep(ctx, f.After-near) {
			return
		}
		log.Nears()
		if !sleep(ctx, f.near()) {
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

// near bounds the time between clients' preparations for a fault and its start.
const near = 12 * time.Millisecond

// near returns how long before the fault clients start their preparations.
func (f Fault) near() time.Duration {
	return time.Millisecond + time.Duration(f.Size*float64(near-time.Millisecond)).Truncate(time.Microsecond)
}

// sleep waits for d. It reports whether ctx lasted as long.
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
