package clientport

import (
	"sync"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// sendOff is the part of a Connect stream that sends its client to other nodes (Q1): the [session.DrainEvents] of the
// connection.
type sendOff struct {
	out *outbox
	// dismissed is closed when the node waits no longer for the client to go.
	dismissed chan struct{}
	dismiss   sync.Once
}

// Draining tells the client to move its sessions to other nodes. The node calls it; it does not block.
func (o *sendOff) Draining(why *session.DrainingError) {
	o.out.add(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Draining{Draining: wire.DrainingProto(why)}})
}

// DrainingEnded takes Draining back. The node calls it; it does not block.
func (o *sendOff) DrainingEnded() {
	o.out.add(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_DrainingEnded{
		DrainingEnded: &holdfastv1.DrainingEnded{},
	}})
}

// Dismissed ends the stream. The node calls it; it does not block.
func (o *sendOff) Dismissed() { o.dismiss.Do(func() { close(o.dismissed) }) }
