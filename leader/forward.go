package leader

import (
	"context"
	"errors"
	"fmt"

	"holdfast/session"
)

// Writes has the functions with which a [Tracker] handles writes to the tree. The tracker does not know the form of
// writes (W2 the state decides). The functions must be safe for concurrent use and return soon.
type Writes struct {
	// Check returns an error for a write that must not be in the log: a write that a node cannot read, or whose command
	// differs from the other fields of the message. Nil accepts every write.
	Check func(w *session.ForwardedWrite) error
	// Acknowledge returns the command that acknowledges results (X3 kept results), 1 to [session.MaxPeerBatch].
	Acknowledge func(all []session.Acknowledged) (session.Command, error)
}

// ForwardLink is the leader's end of one Forward stream. One goroutine calls Welcome and then Refuse, another calls
// Recv. After [Tracker.Forward] has returned, its caller makes blocked calls return.
type ForwardLink interface {
	// Welcome sends the term of the leader, which accepts the node's writes.
	Welcome(term uint64) error
	// Refuse sends 1 to [session.MaxPeerBatch] writes that the leader has not appended.
	Refuse(all []session.WriteRefusal) error
	Recv() (session.ForwardMessage, error)
}

// ErrNotFollowing says that the process that wants to forward writes has no stream of heartbeats to this leader.
var ErrNotFollowing = errors.New("the node's process has no stream of heartbeats to this leader")

// Forward proposes the writes of a node's clients to the log, in the order of arrival (W1 path of a write). It returns
// when the stream ends, ctx ends, the term is over, or the node's Follow stream ends; the error says why. The error is
// [ErrNotFollowing] for a process without a Follow stream, and [ErrSuperseded] once the node has opened a newer Forward
// stream.
//
// The leader does not answer appended writes: their node reads the results from the log. The leader refuses writes that
// it has certainly not appended. When the outcome of a write is unknown, the leader ends the stream (W4 answers from
// applied entries). Forward does not wait for a blocked call of link: the caller makes it return.
func (t *Tracker) Forward(ctx context.Context, hello session.ForwardHello, link ForwardLink) error {
	if t.term.isOver() || hello.Term != t.term.number {
		return ErrTermOver
	}
	followed := t.heartbeats.streamOf(hello.Node, hello.Incarnation)
	if followed == nil {
		return fmt.Errorf("forward by node %d: %w", hello.Node, ErrNotFollowing)
	}
	f := newForwarding(hello.Node, &t.stats)
	t.forwards.begin(hello.Node, f)
	defer t.forwards.end(hello.Node, f)
	go func() { f.stop(t.writeForward(f, link)) }()
	go func() { f.stop(t.readForward(f, link)) }()
	select {
	case <-f.done:
	case <-followed.done:
		f.stop(ErrNotFollowing)
	case <-ctx.Done():
		f.stop(ctx.Err())
	case <-t.term.over:
		f.stop(ErrTermOver)
	}
	t.logger.Debug("forward stream ended", "node", hello.Node, "term", t.term.number, "reason", f.reason)
	return f.reason
}

// Term returns the tracker's term.
func (t *Tracker) Term() uint64 { return t.term.number }

// streamOf returns the open Follow stream of a node's process; nil for none.
func (h *heartbeats) streamOf(node session.Node, incarnation uint64) *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.rounds.members[node]
	if m == nil || !m.present || m.stream == nil || m.stream.hello.Incarnation != incarnation {
		return nil
	}
	return m.stream
}

// writeForward sends the welcome and refusals.
func (t *Tracker) writeForward(f *forwarding, link ForwardLink) error {
	if err := link.Welcome(t.term.number); err != nil {
		return fmt.Errorf("send welcome: %w", err)
	}
	for {
		some := f.refusals()
		if len(some) == 0 {
			select {
			case <-f.done:
				return nil
			case <-f.refused:
			}
			continue
		}
		if f.stopped() {
			return nil
		}
		if err := link.Refuse(some); err != nil {
			return fmt.Errorf("send refusals: %w", err)
		}
	}
}

// readForward receives and processes the node's messages. It waits while too many refusals are unsent, but never for
// the log (W1).
func (t *Tracker) readForward(f *forwarding, link ForwardLink) error {
	for f.awaitCapacity() {
		m, err := link.Recv()
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		if !t.requests.handlers.begin() {
			return ErrTermOver
		}
		err = t.receiveForward(f, &m)
		t.requests.handlers.end()
		if err != nil {
			return err
		}
	}
	return nil
}

// receiveForward proposes the contents of a message to the log.
func (t *Tracker) receiveForward(f *forwarding, m *session.ForwardMessage) error {
	switch {
	case f.stopped():
		return nil
	case len(m.Writes) > 0:
		return t.acceptWrites(f, m.Writes)
	case len(m.Acknowledged) > 0:
		return t.acknowledge(f, m.Acknowledged)
	default:
		return fmt.Errorf("receive: message with neither writes nor acknowledgements: %w", ErrProtocol)
	}
}

func (t *Tracker) acceptWrites(f *forwarding, all []session.ForwardedWrite) error {
	for i := range all {
		w := &all[i]
		if check := t.cfg.Writes.Check; check != nil {
			if err := check(w); err != nil {
				return fmt.Errorf("receive write %d of %v: %w: %w", w.Number, w.Session, ErrProtocol, err)
			}
		}
		place, ok := f.admit(w)
		if !ok {
			continue
		}
		id, number := w.Session, w.Number
		command := session.TreeCommand{
			Encoded: w.Command, Weight: int(w.Weight),
			Source: session.Source{Node: f.node, Connection: w.Connection, Principal: w.Principal},
		}
		t.requests.log.Submit(command, func(_ session.Result, err error) {
			f.recordOutcome(id, number, place, err, t.term)
		})
	}
	return nil
}

// acknowledge logs that clients have results (X3). No goroutine waits for it: a later acknowledgement includes a lost
// one.
func (t *Tracker) acknowledge(f *forwarding, all []session.Acknowledged) error {
	if t.cfg.Writes.Acknowledge == nil || !f.beginAcknowledge() {
		return nil
	}
	command, err := t.cfg.Writes.Acknowledge(all)
	if err != nil {
		f.endAcknowledge()
		return fmt.Errorf("receive acknowledgements: %w: %w", ErrProtocol, err)
	}
	t.requests.log.Submit(command, func(session.Result, error) { f.endAcknowledge() })
	return nil
}
