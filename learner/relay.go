package learner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"holdfast/session"
)

const (
	// chunk is how many sessions one message of an answer holds: at most 13 bytes each, about 5 as a rule.
	chunk = 32 << 10
	// maxPending is how many requests may wait for a leader's reply; more are refused with a LimitError.
	maxPending = 64 << 10
	// maxUnconfirmed is how many answers are remembered while no round is good. The oldest are forgotten: a later
	// confirmation covers them, and a refusal of a touch in one of them counts all the same, see confirmed.
	maxUnconfirmed = 1024
)

// relay is what a node does under one leader: it answers heartbeats and forwards requests, over one link.
type relay struct {
	server *Server
	link   Link
	// term is the leader's.
	term uint64
	// beats holds the one heartbeat that is not answered yet (R1).
	beats chan session.Heartbeat
	out   chan session.Request
	done  chan struct{}

	mu sync.Mutex
	// over is set when the link has ended. guarded by mu
	over bool
	// seq is the newest request's. guarded by mu
	seq uint64
	// pending are the requests that have no reply yet. guarded by mu
	pending map[uint64]chan session.Reply
	// answers are the answers not known to be confirmed, oldest first. guarded by mu
	answers []answered
	// reported is the digest in the newest answer (D1). guarded by mu
	reported session.StateDigest

	// touches and packed are the writer's, kept for their room.
	touches []taken
	sorted  []session.Touch
	packed  []byte
}

// answered names an answer of this stream by its round, and the tag its touches were reported under.
type answered struct{ round, tag uint64 }

var errProtocol = errors.New("leader broke the protocol")

// newRelay waits for the leader's welcome on link.
func newRelay(s *Server, link Link) (*relay, error) {
	m, err := link.Recv()
	if err != nil {
		return nil, fmt.Errorf("waiting for the leader's welcome: %w", err)
	}
	if m.Welcome == nil {
		return nil, fmt.Errorf("%w: its first message is no welcome", errProtocol)
	}
	// Good rounds of a term count as newer than all of the terms before (S4): one that Raft has not come to would keep
	// those of its own leader from counting for good. A leader's Raft is as far as its tracker, and this node's hears
	// of it.
	if own := s.view.Term(); m.Welcome.Term > own {
		return nil, fmt.Errorf("%w: it leads term %d, and this node's Raft is in term %d", session.ErrNoLeader,
			m.Welcome.Term, own)
	}
	return &relay{
		server:  s,
		link:    link,
		term:    m.Welcome.Term,
		beats:   make(chan session.Heartbeat, 1),
		out:     make(chan session.Request, 256),
		done:    make(chan struct{}),
		pending: make(map[uint64]chan session.Reply),
	}, nil
}

// run serves the leader until the link ends. Whichever of its two goroutines ends first closes the link, and so ends
// the other.
func (r *relay) run() error {
	var wg sync.WaitGroup
	var sendErr error
	wg.Go(func() { sendErr = errors.Join(r.write(), r.link.Close()) })
	err := r.read()
	r.finish()
	err = errors.Join(err, r.link.Close())
	wg.Wait()
	return errors.Join(err, sendErr)
}

// finish lets every request that waits end.
func (r *relay) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	close(r.done)
}

// read takes in what the leader says.
func (r *relay) read() error {
	for {
		m, err := r.link.Recv()
		if err != nil {
			return fmt.Errorf("hearing the leader of term %d: %w", r.term, err)
		}
		switch {
		case m.Heartbeat != nil:
			r.hear(m.Heartbeat)
			select {
			case r.beats <- *m.Heartbeat:
			default:
				return fmt.Errorf("%w: a second heartbeat before the first was answered", errProtocol)
			}
		case m.Reply != nil:
			r.reply(*m.Reply)
		}
	}
}

// hear takes in what a heartbeat tells, before it is answered: what is confirmed (S1), that a round was good (S4), and
// how far the leader has applied (M3).
func (r *relay) hear(beat *session.Heartbeat) {
	if tag, last := r.confirmed(beat.Confirmed); tag > 0 || len(beat.NotTaken) > 0 {
		r.server.table.confirm(tag, last, beat.NotTaken)
	}
	r.server.heard(r.term, beat)
	if judge := r.server.cfg.Judge; judge != nil {
		r.mu.Lock()
		reported := r.reported
		r.mu.Unlock()
		judge(reported, beat.Compared)
	}
}

// confirmed returns the tag of the newest remembered answer up to a round, 0 for none, and forgets the answers up to
// it. No answer up to the round has a tag above last. When all of them were forgotten before, their tags are below that
// of the oldest remembered one: the leader names a refused touch only once, and a later confirmation covers the answer
// that reported it, so that the relay has to heed the name now (without: I3).
func (r *relay) confirmed(round uint64) (tag, last uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for n < len(r.answers) && r.answers[n].round <= round {
		tag = r.answers[n].tag
		n++
	}
	switch {
	case n > 0:
		last = tag
	case len(r.answers) > 0:
		last = r.answers[0].tag - 1
	default:
		last = math.MaxUint64
	}
	r.answers = slices.Delete(r.answers, 0, n)
	return tag, last
}

func (r *relay) reply(reply session.Reply) {
	r.mu.Lock()
	waiting := r.pending[reply.Seq]
	delete(r.pending, reply.Seq)
	r.mu.Unlock()
	if waiting != nil {
		waiting <- reply // has room for its one reply
	}
}

// write sends answers and requests: the one goroutine that sends.
func (r *relay) write() error {
	r.server.table.beginStream()
	first := true
	for {
		select {
		case beat := <-r.beats:
			if err := r.answer(&beat, first); err != nil {
				return fmt.Errorf("answering the leader: %w", err)
			}
			first = false
		case request := <-r.out:
			if err := r.link.Send(session.LearnerMessage{Request: &request}); err != nil {
				return fmt.Errorf("asking the leader: %w", err)
			}
		case <-r.done:
			return nil
		}
	}
}

// answer answers the heartbeat of a round (R2). The order of its steps is T1: the table is taken, then h is read, then
// what has moved is left out, so that an entry left in was current at h.
//
// Ages are as of the taking of the table, however late they are sent (T4): what the answer does not say is that there
// was no touch until then. Later touches are not in it, so that a longer age, taken in by a clock that stood meanwhile,
// would be of a silence that nobody has vouched for.
func (r *relay) answer(beat *session.Heartbeat, all bool) error {
	s := r.server
	now := s.clock.look()
	touches, tag := s.table.take(r.touches[:0], all)
	h := s.view.Attachment()
	touches = s.table.keep(touches, h, tag)
	r.touches = touches
	slices.SortFunc(touches, func(a, b taken) int { return cmp.Compare(a.id, b.id) })
	digest := r.digest(beat.Compare)
	r.remember(answered{beat.Round, tag}, digest)
	for {
		n := min(len(touches), chunk)
		a := r.pack(touches[:n], now)
		touches = touches[n:]
		a.Round, a.Attachment, a.Last = beat.Round, h, len(touches) == 0
		a.Applied, a.Digest = s.view.AppliedIndex(), digest
		if err := r.link.Send(session.LearnerMessage{Answer: a}); err != nil {
			return err
		}
		if a.Last {
			clear(r.touches)
			return nil
		}
	}
}

// pack makes a chunk whose ages are as of now, which was when the table was taken. A stall since then is looked for
// once more: whoever had one vouches for nothing (E1).
func (r *relay) pack(touches []taken, now time.Duration) *session.Answer {
	r.server.clock.look()
	r.sorted = r.sorted[:0]
	for _, t := range touches {
		r.sorted = append(r.sorted, session.Touch{ID: t.id, Age: now - t.at})
	}
	// The link may keep the bytes, so they are not the relay's to use again.
	packed := session.AppendTouches(make([]byte, 0, len(r.packed)+len(r.packed)/8), r.sorted)
	r.packed = packed
	a := &session.Answer{Term: r.server.view.Term(), Touches: packed}
	a.VouchAge, a.ProcessAge, a.Credit = r.server.clock.stalls.vouches(now)
	return a
}

// digest is what the state has at an index, none when that is not known: it is behind, or has restored a snapshot, or
// applied so much since.
func (r *relay) digest(index uint64) session.StateDigest {
	if d, ok := r.server.view.DigestAt(index); ok && index > 0 {
		return session.StateDigest{Index: index, Digest: d}
	}
	return session.StateDigest{}
}

func (r *relay) remember(a answered, digest session.StateDigest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) == maxUnconfirmed {
		r.answers = slices.Delete(r.answers, 0, 1)
	}
	r.answers = append(r.answers, a)
	r.reported = digest
}

// do asks the leader and returns its reply. An error that is not ErrOutcomeUnknown says that nothing was asked, or that
// the leader refused.
func (r *relay) do(ctx context.Context, request session.Request) (session.Reply, error) {
	waiting, seq, err := r.begin()
	if err != nil {
		return session.Reply{}, err
	}
	request.Seq = seq
	select {
	case r.out <- request:
	case <-ctx.Done():
		r.forget(seq)
		return session.Reply{}, ctx.Err()
	case <-r.done:
		return session.Reply{}, session.ErrNoLeader
	}
	select {
	case reply := <-waiting:
		return reply, reply.Err
	case <-ctx.Done():
		r.forget(seq)
		return session.Reply{}, fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, ctx.Err())
	case <-r.done:
		return session.Reply{}, fmt.Errorf("%w: the stream to the leader ended", session.ErrOutcomeUnknown)
	}
}

func (r *relay) begin() (chan session.Reply, uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil, 0, session.ErrNoLeader
	}
	if len(r.pending) >= maxPending {
		return nil, 0, &session.LimitError{
			Name: "requests_to_leader", Limit: fmt.Sprintf("%d in flight", maxPending),
			RetryAfter: session.BusyRetryAfter,
		}
	}
	r.seq++
	waiting := make(chan session.Reply, 1)
	r.pending[r.seq] = waiting
	return waiting, r.seq, nil
}

func (r *relay) forget(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, seq)
}
