package health

import (
	"context"
	"errors"
	"time"

	"holdfast/leader"
	"holdfast/learner"
	"holdfast/session"
)

const (
	// transferEvery is the shortest time between two attempts of a leader with a full disk to transfer leadership:
	// nothing is committed during an attempt, and disks that fill and empty in turn must not depose leaders in turn.
	transferEvery = time.Minute
	// upToDate is the largest number of entries by which a successor may lag: Raft first sends it these entries, and
	// commits nothing meanwhile.
	upToDate = 1024
)

// evacuation moves leadership and clients to other nodes while this node's disk is full and others have free space (O5
// full disks). The node still serves clients that stay or come back: their writes take as much space through any node.
// It belongs to the goroutine of [Drain.Run].
type evacuation struct {
	drain *Drain
	// offload sends the clients away, once for each time that the disk becomes full; nil before that begins.
	offload *learner.Offload
	// transferred is the time of this node's last attempt to transfer leadership.
	transferred time.Time
}

// step does the work that is possible now.
func (e *evacuation) step(ctx context.Context) {
	cfg := &e.drain.cfg
	if !cfg.DiskFull() {
		e.end()
		return
	}
	if to := e.successor(); to != 0 {
		e.transfer(ctx, to)
		return
	}
	if cfg.DisksFull() || len(e.targets()) == 0 {
		return // a client that leaves now would get no second notice when a node has free space
	}
	if e.offload == nil && e.drain.Serves() == nil {
		cfg.Logger.Warn("the disk is full: sending clients to nodes with free space")
		e.offload = cfg.Server.Offload(e.targets)
	}
	if e.offload != nil {
		e.offload.AskNext(int(drainPace * drainPass / time.Second))
	}
}

// targets returns the client addresses of the nodes with free disk space.
func (e *evacuation) targets() []string {
	withSpace, _ := e.drain.targetsByDisk()
	return withSpace
}

// successor returns the voter to which leadership should go now; 0 for none.
func (e *evacuation) successor() session.Node {
	if !e.drain.cfg.Leads() || !e.transferred.IsZero() && time.Since(e.transferred) < transferEvery {
		return 0
	}
	return successorWithDisk(e.drain.cfg.Node, e.drain.cfg.Peers())
}

// successorWithDisk returns the voter that has applied most among the responsive voters that have free disk space and
// are not drained, provided that it is up to date with this node, self; otherwise 0.
func successorWithDisk(self session.Node, known []leader.Peer) session.Node {
	var best leader.Peer
	var applied uint64
	for _, p := range known {
		switch {
		case p.Node == self:
			applied = p.Applied
		case p.Voter && p.Responsive && !p.Draining && !p.Full && (best.Node == 0 || p.Applied > best.Applied):
			best = p
		}
	}
	if best.Applied+upToDate < applied {
		return 0
	}
	return best.Node
}

func (e *evacuation) transfer(ctx context.Context, to session.Node) {
	cfg := &e.drain.cfg
	e.transferred = time.Now()
	cfg.Logger.Warn("the disk is full: transferring leadership to a node with free space", "node", to)
	if err := cfg.TransferTo(ctx, to); err != nil && !errors.Is(err, session.ErrNotLeader) && ctx.Err() == nil {
		cfg.Logger.Warn("the disk is full: leadership was not transferred", "error", err)
	}
}

// drop leaves the clients to a drain that begins.
func (e *evacuation) drop() { e.offload = nil }

// end lets the remaining clients stay.
func (e *evacuation) end() {
	if e.offload != nil {
		e.offload.End()
		e.offload = nil
	}
}
