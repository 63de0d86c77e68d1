package clientport

import (
	"sync"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// drainNotices is the part of a Connect stream that sends its client to other nodes (Q1 drain): the connection's
// [session.DrainEvents].
type drainNotices struct {
	out *outbox
	// timedOut is closed when the node no longer waits for the client to leave.
	timedOut    chan struct{}
	timeoutOnce sync.Once
}

// Draining asks the client to move its sessions to other nodes. The node calls it; it does not block.
func (o *drainNotices) Draining(why *session.DrainingError) {
	o.out.add(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Draining{Draining: wire.DrainingProto(why)}})
}

// DrainingEnded revokes Draining. The node calls it; it does not block.
func (o *drainNotices) DrainingEnded() {
	o.out.add(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_DrainingEnded{
		DrainingEnded: &holdfastv1.DrainingEnded{},
	}})
}

// DrainTimeout ends the stream. The node calls it; it does not block.
func (o *drainNotices) DrainTimeout() { o.timeoutOnce.Do(func() { close(o.timedOut) }) }
