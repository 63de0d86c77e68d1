package clientport

import (
	"encoding/binary"
	"fmt"
	"slices"
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
	// maxEventBatch is the largest number of sessions in one Gone or Moved.
	maxEventBatch = 4096
	// maxOutgoingBytes bounds the unsent bytes of a stream beyond the allowance of its sessions, as
	// StreamLimits.Outgoing bounds its unsent messages. It is large enough for the answer to the largest touch, with a
	// certificate for each session. It is also large enough for the answers to the default number of resumes in flight,
	// whose sessions have all permitted labels: one log entry answers all of them.
	maxOutgoingBytes = 12 << 20
	// messageOverhead is the approximate memory of a queued message besides its fields.
	messageOverhead = 128
	// failureOverhead is the overhead of each session in a refused touch, detailOverhead the overhead of each error
	// detail in the answer, with a certificate.
	failureOverhead, detailOverhead = 64, 432
	// minReadRate is the number of bytes of a message for which the client gets one more second to read, in bytes as
	// they count in the queue.
	minReadRate = 64 << 10
)

// outbox is the queue of messages to one Connect stream. Adding never blocks. When a client reads too slowly for its
// requests, the outbox overflows once, accepts no more messages, and the stream ends. Safe for concurrent use.
type outbox struct {
	limit int
	// account is the account of the connection.
	account *port.Account
	// readTimeout is the longest time for which the client may read nothing while a message waits. gRPC accepts a
	// message when the previous one has gone, and does not say how much of the previous one has gone: so a large
	// message gets more time.
	readTimeout time.Duration
	// state returns the node's state for the messages.
	state func() session.NodeState
	// wake signals new messages to the writer; nil for an outbox without a writer.
	wake func()
	// overflow is closed when the queue overflows.
	overflow chan struct{}

	mu sync.Mutex
	// queue is in the order of sending; bytes is its size. guarded by mu
	queue []outgoing
	bytes int
	// spare is the free part of the memory chunk for written answers. guarded by mu
	spare []byte
	// inBatch is the size of the messages that the writer is sending. guarded by mu
	inBatch int
	// sessions is the largest number of sessions that the stream has had at once. guarded by mu
	sessions int
	// space is closed when the queue has become shorter or closed; nil while no reader waits. guarded by mu
	space chan struct{}
	// closed says that the queue accepts no more messages, full why. guarded by mu
	closed bool
	full   *session.LimitError
}

// outgoing is a message, an encoded message, or a batch of ends of sessions.
type outgoing struct {
	message *holdfastv1.ServerMessage
	written []byte
	ends    *ends
	bytes   int
}

// newOutbox returns a queue of at most limit messages. The writer adds state to each message, and the messages count on
// account. The queue overflows when the client reads no message for the duration of timeout.
func newOutbox(limit int, account *port.Account, timeout time.Duration, state func() session.NodeState) *outbox {
	return &outbox{
		limit: limit, account: account, readTimeout: timeout, state: state, overflow: make(chan struct{}),
	}
}

// allow records the number of sessions of the stream. It raises the bound of unsent bytes by the allowance of the
// sessions, until the stream ends.
func (o *outbox) allow(sessions int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if sessions > o.sessions && !o.closed {
		o.account.Allow(sessions - o.sessions)
		o.sessions = sessions
	}
}

// unsent returns the number of unsent bytes, including those that gRPC has not accepted yet.
func (o *outbox) unsent() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes + o.inBatch
}

// weight is the approximate memory of a queued message. It counts failed touches one by one: in memory they are several
// times as large as on the wire, and one request of a client can cause 10,000 of them.
func weight(m *holdfastv1.ServerMessage) int {
	bytes := proto.Size(m) + messageOverhead
	var detail *holdfastv1.ErrorDetail
	failures := m.GetTouched().GetFailures()
	if resumed := m.GetResumedSessions(); resumed != nil {
		failures = resumed.GetFailures()
	}
	for _, f := range failures {
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

// pieceBytes is the size of a memory chunk for encoded answers.
const pieceBytes = 4 << 10

// write queues a copy of an encoded message.
func (o *outbox) write(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if len(o.queue) == 0 {
		o.spare = nil // a single answer needs no chunk: an idle connection costs little
	} else if cap(o.spare) < len(b) {
		o.spare = make([]byte, 0, max(pieceBytes, len(b)))
	}
	kept := append(o.spare, b...)
	o.spare = kept[len(kept):]
	o.push(outgoing{written: slices.Clip(kept), bytes: len(b) + messageOverhead})
}

// ends are the sessions of a Gone, in the bytes of the wire. Ends come by the thousand, on the goroutine that applies
// the log, and one message for each would need four objects.
type ends struct {
	cause             session.Cause
	ids, certificates []byte
}

// addExpiry queues the end of a session. It adds to the last queued message if that has the same kind: one message
// carries all ends that happen while the client does not read.
func (o *outbox) addExpiry(c session.Certificate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.last()
	batch := last.ends
	if batch == nil || batch.cause != c.Cause || len(batch.ids) == 8*maxEventBatch {
		batch = &ends{cause: c.Cause}
		if !o.push(outgoing{ends: batch, bytes: messageOverhead}) {
			return
		}
		last = o.last()
	}
	before := len(batch.certificates)
	batch.ids = binary.LittleEndian.AppendUint64(batch.ids, uint64(c.ID))
	batch.certificates = wire.AppendCertificate(batch.certificates, &c)
	o.grow(last, len(batch.certificates)-before+16)
}

// moved queues the loss of a session to another connection, of the client process instance. It batches as addExpiry
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

// last returns the last queued message, or an empty one when the queue is empty. Called with mu held.
func (o *outbox) last() *outgoing {
	if len(o.queue) == 0 {
		return &outgoing{}
	}
	return &o.queue[len(o.queue)-1]
}

// push queues a message, or overflows, and reports whether the message was queued. Called with mu held.
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
	if limit := maxOutgoingBytes + o.sessions*port.SessionBytes; o.bytes > limit {
		o.overflown("outgoing_bytes", fmt.Sprintf("%d bytes that the client has not read", limit))
		return
	}
	o.poke()
}

// poke wakes the writer. It returns at once.
func (o *outbox) poke() {
	if o.wake != nil {
		o.wake()
	}
}

// overflown closes the queue and drops its messages. Called with mu held.
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
	why := sendTimeoutError(o.readTimeout)
	o.overflown(why.Name, why.Limit)
}

// starved ends the stream of a client that has read nothing of the tree for the given time (G9 answer bounds).
func (o *outbox) starved(wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.overflown("outgoing_timeout", fmt.Sprintf("%v, in which the client has read nothing of the tree", wait))
}

// empty closes the queue and drops its messages. Called with mu held.
func (o *outbox) empty() {
	o.account.Add(-o.bytes)
	o.closed, o.queue, o.bytes, o.spare = true, nil, 0, nil
	o.signalSpace()
}

// fits returns nil when n messages fit into the queue, when the queue is empty, and when it is closed; open says that
// it is not closed. Otherwise shorter is closed once the queue has become shorter.
func (o *outbox) fits(n int) (shorter <-chan struct{}, open bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(o.queue) == 0 || len(o.queue)+n <= o.limit {
		return nil, !o.closed
	}
	if o.space == nil {
		o.space = make(chan struct{})
	}
	return o.space, true
}

// signalSpace wakes the reader that waits for space. Called with mu held.
func (o *outbox) signalSpace() {
	if o.space != nil {
		close(o.space)
		o.space = nil
	}
}

// close makes the queue accept no more messages. run returns when the queued messages have been sent.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.signalSpace()
	o.poke()
}

// drop closes the queue and drops its messages, because the stream has ended.
func (o *outbox) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.empty()
	o.account.Add(-o.inBatch)
	o.account.Allow(-o.sessions)
	o.inBatch, o.sessions = 0, 0
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

// joinBytes is the largest size of a joined message. A larger message goes alone, so that joining never makes a client
// receive larger messages.
const joinBytes = 512 << 10

// nextBatch removes the queued messages that fit into one message.
func (o *outbox) nextBatch() (batch []outgoing, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.account.Add(-o.inBatch) // the previous batch has been sent
	o.inBatch = 0
	n := 0
	for n < min(len(o.queue), session.MaxBatch) && (n == 0 || o.inBatch+o.queue[n].bytes <= joinBytes) {
		o.inBatch += o.queue[n].bytes
		n++
	}
	o.bytes -= o.inBatch
	batch, o.queue = o.queue[:n:n], o.queue[n:]
	if len(o.queue) == 0 {
		o.queue, o.spare = nil, nil // frees the memory of a burst: an idle connection costs little
	}
	if n > 0 {
		o.signalSpace()
	}
	return batch, o.closed
}
