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
	failureOverhead, detailOverhead = 64, 432
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
	state func() session.NodeState
	// wake tells the writer that there is something new. It has a buffer of one.
	wake chan struct{}
	// overflow is closed when the queue overflows.
	overflow chan struct{}

	mu sync.Mutex
	// queue is in the order of sending; bytes is its size. guarded by mu
	queue []outgoing
	bytes int
	// spare is what is left of the piece of memory that holds written answers. guarded by mu
	spare []byte
	// taken is the size of the messages that the writer has taken to send. guarded by mu
	taken int
	// sessions is the largest number of sessions that the stream has had at once. guarded by mu
	sessions int
	// joins says that one message may carry many answers. guarded by mu
	joins bool
	// room is told when the queue has become shorter or closed, while somebody waits for it; else it is nil. guarded by
	// mu
	room chan struct{}
	// closed says that the queue takes no more, full why. guarded by mu
	closed bool
	full   *session.LimitError
}

// outgoing is a message, or one that is written already, or the ends of sessions.
type outgoing struct {
	message *holdfastv1.ServerMessage
	written []byte
	ends    *ends
	bytes   int
}

// newOutbox returns a queue of at most limit messages, each of which gets state as it is sent. The messages count on
// account. The queue overflows when the client reads none of them for as long as patience.
func newOutbox(limit int, account *port.Account, patience time.Duration, state func() session.NodeState) *outbox {
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

// unsent returns how many bytes wait, those included that gRPC has not taken yet.
func (o *outbox) unsent() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes + o.taken
}

// weight is about what a message costs while it waits. Refused touches are counted one by one: in memory they are
// several times as large as on the wire, and one request of a client can cause 10,000 of them.
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

// pieceBytes is how much memory is got at once for written answers.
const pieceBytes = 4 << 10

// write queues a message that is written already. It keeps a copy.
func (o *outbox) write(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if len(o.queue) == 0 {
		o.spare = nil // an answer alone takes no piece: an idle connection costs little
	} else if cap(o.spare) < len(b) {
		o.spare = make([]byte, 0, max(pieceBytes, len(b)))
	}
	kept := append(o.spare, b...)
	o.spare = kept[len(kept):]
	o.push(outgoing{written: slices.Clip(kept), bytes: len(b) + messageOverhead})
}

// ends are the sessions of a Gone, in the bytes of the wire. Ends come by the thousand, on the goroutine that applies
// the log: a message of each would take four objects.
type ends struct {
	cause             session.Cause
	ids, certificates []byte
}

// gone queues the end of a session. It adds to the last queued message if that is of the same kind: one message tells
// all ends that happen while the client does not read.
func (o *outbox) gone(c session.Certificate) {
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
	o.poke()
}

// poke tells the writer to look again. It returns at once.
func (o *outbox) poke() {
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
	why := impatient(o.patience)
	o.overflown(why.Name, why.Limit)
}

// starved ends the stream of a client that has read nothing of the tree for so long (G9).
func (o *outbox) starved(wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.overflown("outgoing_wait", fmt.Sprintf("%v, in which the client has read nothing of the tree", wait))
}

// empty closes the queue and drops its messages. Called with mu held.
func (o *outbox) empty() {
	o.account.Add(-o.bytes)
	o.closed, o.queue, o.bytes, o.spare = true, nil, 0, nil
	o.tellRoom()
}

// joinAnswers lets one message carry many answers from now on: the client has shown that it knows them.
func (o *outbox) joinAnswers() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.joins = true
}

// fits returns nil when the queue has room for n messages, when it is empty, and when it is closed; open says that it
// is not closed. Otherwise shorter is closed once the queue has become shorter.
func (o *outbox) fits(n int) (shorter <-chan struct{}, open bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(o.queue) == 0 || len(o.queue)+n <= o.limit {
		return nil, !o.closed
	}
	if o.room == nil {
		o.room = make(chan struct{})
	}
	return o.room, true
}

// tellRoom wakes the reader that waits for room. Called with mu held.
func (o *outbox) tellRoom() {
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}

// close lets the queue take no more. run returns when the queued messages have been sent.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.tellRoom()
	o.poke()
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

const (
	// takeBatch is how many messages the writer takes at once, takeBytes how many bytes before the last of them. The
	// taken messages count on the connection and no longer on the stream, so they must be few.
	takeBatch = 16
	takeBytes = 64 << 10
	// joinBytes is how many bytes of messages are joined. A larger message goes alone, so that no client needs to take a
	// larger one than it would without joined ones.
	joinBytes = 512 << 10
)

// take removes messages from the queue, and says whether they are to be joined.
func (o *outbox) take() (batch []outgoing, joined, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.account.Add(-o.taken) // the taken messages have been sent
	o.taken = 0
	most := takeBatch
	if o.joins {
		most = session.MaxBatch
	}
	n := 0
	for ; n < min(len(o.queue), most); n++ {
		next := o.queue[n].bytes
		if !o.joins && o.taken >= takeBytes || o.joins && n > 0 && o.taken+next > joinBytes {
			break
		}
		o.taken += next
	}
	o.bytes -= o.taken
	batch, o.queue = o.queue[:n:n], o.queue[n:]
	if len(o.queue) == 0 {
		o.queue, o.spare = nil, nil // frees the memory of a burst: an idle connection costs little
	}
	if n > 0 {
		o.tellRoom()
	}
	return batch, o.joins, o.closed
}
