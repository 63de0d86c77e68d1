package clientport

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/port"
	"holdfast/transport/wire"
)

const (
	// maxEventBatch is the number of sessions that one Gone or Moved may name.
	maxEventBatch = 4096
	// maxOutgoingBytes bounds the waiting bytes of a stream, as StreamLimits.Outgoing bounds its waiting messages,
	// beyond what its sessions account for. The answer to the largest touch fits, with a certificate for each session
	// that it names. The answers to as many resumes as may be under way by default fit too, of sessions with all the
	// labels that one may have: one log entry answers all of them.
	maxOutgoingBytes = 12 << 20
	// messageOverhead is about what a queued message costs beside its fields.
	messageOverhead = 128
	// failureOverhead is the overhead of each session in a refused touch, detailOverhead the overhead of each error
	// detail in the answer, with a certificate.
	failureOverhead, detailOverhead = 64, 400
	// slowestRead is how many bytes of a message give the client one second more to read it, in bytes as they count
	// while they wait.
	slowestRead = 64 << 10
)

// outbox is the queue of messages to one Connect stream. Adding never blocks. When a client reads too slowly for what
// it asks for, the queue overflows once, takes no more, and its stream ends. Safe for concurrent use.
type outbox struct {
	limit int
	// account is the account of the connection.
	account *port.Account
	// patience is how long the client may read nothing while something waits. gRPC takes a message when the previous
	// one has gone, and does not say how much of that one has gone: a large message gets more time.
	patience time.Duration
	// state returns the node's state for the messages.
	state func() *holdfastv1.NodeState
	// wake tells the writer that there is something new. It has a buffer of one.
	wake chan struct{}
	// overflow is closed when the queue overflows.
	overflow chan struct{}

	mu sync.Mutex
	// queue is in the order of sending; bytes is its size. guarded by mu
	queue []outgoing
	bytes int
	// taken is the size of the messages that the writer has taken to send. guarded by mu
	taken int
	// sessions is the largest number of sessions that the stream has had at once. guarded by mu
	sessions int
	// sent is the size of the last message sent. It belongs to the writer.
	sent int
	// closed says that the queue takes no more, full why. guarded by mu
	closed bool
	full   *session.LimitError
}

type outgoing struct {
	message *holdfastv1.ServerMessage
	bytes   int
}

// newOutbox returns a queue of at most limit messages, each of which gets state as it is sent. The messages count on
// account. The queue overflows when the client reads none of them for as long as patience.
func newOutbox(limit int, account *port.Account, patience time.Duration, state func() *holdfastv1.NodeState) *outbox {
	return &outbox{
		limit: limit, account: account, patience: patience, state: state, wake: make(chan struct{}, 1),
		overflow: make(chan struct{}),
	}
}

// allow notes how many sessions the stream has. It raises the bound of waiting bytes by what the sessions account for,
// for as long as the stream lasts.
func (o *outbox) allow(sessions int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if sessions > o.sessions && !o.closed {
		o.account.Allow(sessions - o.sessions)
		o.sessions = sessions
	}
}

// weight is about what a message costs while it waits. Refused touches are counted one by one: in memory they are
// several times as large as on the wire, and one request of a client can cause 10,000 of them.
func weight(m *holdfastv1.ServerMessage) int {
	bytes := proto.Size(m) + messageOverhead
	var detail *holdfastv1.ErrorDetail
	for _, f := range m.GetTouched().GetFailures() {
		bytes += failureOverhead
		if f.GetError() != detail {
			detail = f.GetError()
			bytes += detailOverhead
		}
	}
	return bytes
}

// add queues a message.
func (o *outbox) add(m *holdfastv1.ServerMessage) {
	bytes := weight(m)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.push(outgoing{message: m, bytes: bytes})
}

// gone queues the end of a session. It adds to the last queued message if that is of the same kind: one message tells
// all ends that happen while the client does not read.
func (o *outbox) gone(c session.Certificate) {
	certificate := wire.CertificateProto(c)
	bytes := proto.Size(certificate) + 16
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.last()
	batch := last.message.GetGone()
	if batch == nil || batch.GetCause() != certificate.GetCause() || len(batch.GetIds()) == maxEventBatch {
		batch = &holdfastv1.Gone{Cause: certificate.GetCause()}
		m := &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Gone{Gone: batch}}
		if !o.push(outgoing{message: m, bytes: messageOverhead}) {
			return
		}
		last = o.last()
	}
	batch.Ids = append(batch.Ids, uint64(c.ID))
	batch.Certificate = append(batch.Certificate, certificate)
	o.grow(last, bytes)
}

// moved queues the loss of a session to another connection, of the client process with an instance. It batches as gone
// does.
func (o *outbox) moved(id session.ID, instance uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.last()
	batch := last.message.GetMoved()
	if batch == nil || len(batch.GetIds()) == maxEventBatch {
		batch = &holdfastv1.Moved{}
		m := &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Moved{Moved: batch}}
		if !o.push(outgoing{message: m, bytes: messageOverhead}) {
			return
		}
		last = o.last()
	}
	batch.Ids = append(batch.Ids, uint64(id))
	batch.Instances = append(batch.Instances, instance)
	o.grow(last, 16)
}

func (o *outbox) jeopardy(since time.Time, try []string) {
	o.add(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Jeopardy{
		Jeopardy: &holdfastv1.Jeopardy{Since: timestamppb.New(since), Try: try},
	}})
}

func (o *outbox) jeopardyEnded() {
	o.add(
		&holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_JeopardyEnded{JeopardyEnded: &holdfastv1.JeopardyEnded{}},
		},
	)
}

// last returns the last queued message, or one without content when the queue is empty. Called with mu held.
func (o *outbox) last() *outgoing {
	if len(o.queue) == 0 {
		return &outgoing{}
	}
	return &o.queue[len(o.queue)-1]
}

// push queues a message, or overflows, and reports whether the queue took it. Called with mu held.
func (o *outbox) push(m outgoing) bool {
	switch {
	case o.closed:
		return false
	case len(o.queue) >= o.limit:
		o.overflown("outgoing_messages", fmt.Sprintf("%d messages that the client has not read", o.limit))
		return false
	}
	bytes := m.bytes
	m.bytes = 0
	o.queue = append(o.queue, m)
	o.grow(o.last(), bytes)
	return !o.closed
}

// grow counts bytes that were added to a queued message, and wakes the writer. Called with mu held.
func (o *outbox) grow(m *outgoing, bytes int) {
	m.bytes += bytes
	o.bytes += bytes
	o.account.Add(bytes)
	if most := maxOutgoingBytes + o.sessions*port.SessionBytes; o.bytes > most {
		o.overflown("outgoing_bytes", fmt.Sprintf("%d bytes that the client has not read", most))
		return
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// overflown closes the queue and drops it. Called with mu held.
func (o *outbox) overflown(name, limit string) {
	if o.closed {
		return
	}
	o.full = &session.LimitError{Name: name, Limit: limit}
	o.empty()
	close(o.overflow)
}

// stuck ends the stream of a client that has read nothing for too long.
func (o *outbox) stuck() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.overflown(
		"outgoing_wait", fmt.Sprintf(
			"%v, and a second for each %d KiB of a message, in which the client has not read it", o.patience,
			slowestRead>>10,
		),
	)
}

// empty closes the queue and drops its messages. Called with mu held.
func (o *outbox) empty() {
	o.account.Add(-o.bytes)
	o.closed, o.queue, o.bytes = true, nil, 0
}

// close lets the queue take no more. run returns when the queued messages have been sent.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// drop closes the queue and drops its messages, because the stream has ended.
func (o *outbox) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.empty()
	o.account.Add(-o.taken)
	o.account.Allow(-o.sessions)
	o.taken, o.sessions = 0, 0
}

// err returns why the queue overflowed.
func (o *outbox) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.full == nil {
		return nil
	}
	return o.full
}

// run sends queued messages until the queue is closed and empty, ctx ends, or send fails.
func (o *outbox) run(ctx context.Context, send func(*holdfastv1.ServerMessage) error) error {
	var buffer [takeBatch]outgoing
	late := time.AfterFunc(o.patience, o.stuck)
	late.Stop()
	for {
		n, closed := o.take(&buffer)
		if n > 0 {
			if err := o.send(ctx, buffer[:n], late, send); err != nil {
				return err
			}
			continue
		}
		if closed {
			return nil
		}
		select {
		case <-o.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send sends messages that are no longer queued. One reading of the node's state serves all of them, because all were
// made before it (N4). send keeps none of them. late fires when gRPC does not take a message in time.
func (o *outbox) send(ctx context.Context, batch []outgoing, late *time.Timer,
	send func(*holdfastv1.ServerMessage) error,
) error {
	defer late.Stop()
	state := o.state()
	for i, m := range batch {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch[i] = outgoing{}
		m.message.State = state
		late.Reset(o.patience + time.Duration(o.sent)*time.Second/slowestRead)
		if err := send(m.message); err != nil {
			return err
		}
		o.sent = m.bytes
	}
	return nil
}

const (
	// takeBatch is how many messages the writer takes at once, takeBytes how many bytes before the last of them. The
	// taken messages count on the connection and no longer on the stream, so they must be few.
	takeBatch = 16
	takeBytes = 64 << 10
)

// take moves messages from the queue to batch and returns how many.
func (o *outbox) take(batch *[takeBatch]outgoing) (n int, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.account.Add(-o.taken) // the taken messages have been sent
	o.taken = 0
	for ; n < min(len(o.queue), takeBatch) && o.taken < takeBytes; n++ {
		batch[n] = o.queue[n]
		o.taken += o.queue[n].bytes
	}
	o.bytes -= o.taken
	clear(o.queue[:n]) // the queue's array keeps what it holds
	o.queue = o.queue[n:]
	if len(o.queue) == 0 {
		o.queue = nil // frees the memory of a burst: an idle connection costs little
	}
	return n, o.closed
}
