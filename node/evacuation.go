package node

import (
	"context"
	"errors"
	"time"

	"holdfast/leader"
	"holdfast/learner"
	"holdfast/session"
)

const (
	// handOverEvery is the least time between two attempts of a leader with a full disk to hand leadership over: nothing
	// is committed meanwhile, and disks that fill and empty by turns must not make leaders by turns.
	handOverEvery = time.Minute
	// upToDate is how many entries a successor may be behind: Raft sends it those first, and commits nothing meanwhile.
	upToDate = 1024
)

// evacuation is what a node does whose disk is full, while others have room (O5): it hands leadership over, and sends its
// clients to other nodes. It goes on serving those that stay or come back: what they write takes no less room if they
// write it elsewhere. It belongs to the goroutine of [drain.run].
type evacuation struct {
	drain *drain
	// full reports whether this node's disk is full, and noRoom whether the disks of so many are that every node refuses.
	full, noRoom func() bool
	// handOverTo gives the lead to a voter.
	handOverTo func(context.Context, session.Node) error

	// away sends the clients away, once for each time that the disk becomes full; nil before that begins.
	away *learner.SendOff
	// handedOver is when this node tried to hand leadership over last.
	handedOver time.Time
}

// step does what can be done now.
func (e *evacuation) step(ctx context.Context) {
	if !e.full() {
		e.end()
		return
	}
	if to := e.successor(); to != 0 {
		e.handOver(ctx, to)
		return
	}
	if e.noRoom() || len(e.targets()) == 0 {
		return // a client that is told now would not be told again when a node has room
	}
	if e.away == nil && e.drain.ready() == nil {
		e.drain.logger.Warn("the disk is full: sending clients to nodes with room")
		e.away = e.drain.server.SendAway(e.targets)
	}
	if e.away != nil {
		e.away.Tell(int(drainPace * drainPass / time.Second))
	}
}

// targets returns the client addresses of the nodes that have room.
func (e *evacuation) targets() []string {
	roomy, _ := e.drain.takers()
	return roomy
}

// successor returns the voter to hand leadership to now; 0 for none.
func (e *evacuation) successor() session.Node {
	if !e.drain.leads() || !e.handedOver.IsZero() && time.Since(e.handedOver) < handOverEvery {
		return 0
	}
	return roomySuccessor(e.drain.node, e.drain.peers())
}

// roomySuccessor returns the voter that is heard, has room, is not being drained, and has applied most, if it is up to
// date with this node, self; otherwise 0.
func roomySuccessor(self session.Node, known []leader.Peer) session.Node {
	var best leader.Peer
	var applied uint64
	for _, p := range known {
		switch {
		case p.Node == self:
			applied = p.Applied
		case p.Voter && p.Heard && !p.Draining && !p.Full && (best.Node == 0 || p.Applied > best.Applied):
			best = p
		}
	}
	if best.Applied+upToDate < applied {
		return 0
	}
	return best.Node
}

func (e *evacuation) handOver(ctx context.Context, to session.Node) {
	e.handedOver = time.Now()
	e.drain.logger.Warn("the disk is full: handing leadership to a node with room", "node", to)
	if err := e.handOverTo(ctx, to); err != nil && !errors.Is(err, session.ErrNotLeader) && ctx.Err() == nil {
		e.drain.logger.Warn("the disk is full: leadership was not handed over", "error", err)
	}
}

// drop leaves the clients to the drain that begins.
func (e *evacuation) drop() { e.away = nil }

// end has clients that have not gone stay.
func (e *evacuation) end() {
	if e.away != nil {
		e.away.End()
		e.away = nil
	}
}
