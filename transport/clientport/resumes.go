package clientport

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/port"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

// bulkSessionBytes is the approximate memory of a session in a request for many in flight, besides its bytes in the
// message. The stream holds its id (8 bytes), its resume (40) with the position (8), its outcome (32), and an entry in
// the map of resumes (up to 40). The node holds the same again without the entry (40 + 8 + 32), and the leader's reply
// (32). The rest is for the columns of the message to the leader.
const bulkSessionBytes = 256

// bulk is one request to resume many sessions, in flight.
type bulk struct {
	c   *connection
	seq uint64
	// outcomes are in the order of the request. requests are the sessions that the node resumes, at their positions;
	// the outcomes of all other sessions are refusals.
	outcomes []session.Resumed
	requests session.ResumesRequest
	at       []int
	ids      []uint64
	// bytes is the approximate memory of the request in flight.
	bytes int
	// over is set when the request has its outcome.
	over atomic.Bool
}

// resumes begins to resume many sessions. Each session counts against the rate limit: sessions beyond it are refused,
// each with its own retry time, and the others proceed (M1 a resume is a move).
func (c *connection) resumes(ctx context.Context, p *holdfastv1.ResumeSessions) error {
	r, err := wire.ClientResumesFrom(p)
	if err != nil {
		return err
	}
	b := &bulk{
		c: c, seq: p.GetSeq(), ids: p.GetIds(), outcomes: make([]session.Resumed, len(r.Sessions)),
		requests: session.ResumesRequest{
			Instance: r.Instance, Seen: r.Seen, Sessions: r.Sessions[:0:0], Trace: session.TraceOf(ctx),
		},
		bytes: proto.Size(p) + len(r.Sessions)*bulkSessionBytes + port.RequestBytes,
	}
	if err := c.network.Reserve(b.bytes); err != nil {
		return err
	}
	if err := c.streamState.beginBulk(); err != nil {
		c.network.Add(-b.bytes)
		return err
	}
	defer c.streamState.waits.Done()
	if err := b.start(r); err != nil {
		b.fail(err)
	}
	return nil
}

// start admits the sessions and passes them to the node. It turns a panic into an error.
func (b *bulk) start(r *session.ResumesRequest) (err error) {
	defer b.c.server.port.Recovered(wire.ConnectMethod, &err)
	b.admit(r)
	if len(b.at) == 0 {
		b.recordOutcomes(nil)
		return nil
	}
	b.c.conn.StartResumes(b.requests, b.recordOutcomes)
	return nil
}

// fail refuses all sessions without a refusal yet.
func (b *bulk) fail(why error) {
	b.end(func() (granted []session.Token) {
		for i := range b.outcomes {
			if b.outcomes[i].Err == nil {
				b.outcomes[i] = session.Resumed{SafeFor: -1, Err: why}
			}
		}
		return nil
	})
}

// admit admits the sessions that the rate limit and the stream's limits permit, in order, and refuses the others.
func (b *bulk) admit(r *session.ResumesRequest) {
	now := time.Now()
	for i := range r.Sessions {
		id := r.Sessions[i].ID
		if err := b.c.reservations.Admit(now, ratelimit.Arrival{Kind: ratelimit.Resumes, Session: id}); err != nil {
			b.outcomes[i] = session.Resumed{SafeFor: -1, Err: err}
			continue
		}
		b.at = append(b.at, i)
	}
	begun, refused := b.c.streamState.addResumes(b.at, func(i int) session.ID { return r.Sessions[i].ID })
	full := b.c.streamState.tooMany()
	for _, i := range refused {
		b.c.reservations.NotBegun(now, ratelimit.Resumes)
		b.outcomes[i] = session.Resumed{SafeFor: -1, Err: full}
	}
	b.at = begun
	b.requests.Sessions = make([]session.Resuming, len(begun))
	for n, i := range b.at {
		b.requests.Sessions[n] = r.Sessions[i]
	}
}

// recordOutcomes processes the outcomes of the sessions that the node has resumed or refused.
func (b *bulk) recordOutcomes(requests []session.Resumed) {
	b.end(func() []session.Token {
		now := time.Now()
		granted := make([]session.Token, 0, len(requests))
		for n, o := range requests {
			b.outcomes[b.at[n]] = o
			if o.Err != nil {
				b.c.reservations.Unserved(now, ratelimit.Resumes, o.Err)
				continue
			}
			b.c.shortest.note(o.SafeFor) // the whole promise, which is below the timeout
			granted = append(granted, session.Token{ID: b.requests.Sessions[n].ID, Attachment: o.Attachment})
		}
		return granted
	})
}

// end ends the request: finish completes the outcomes; then end queues the answer, and the events that waited for it.
// Only the first call counts: a request that panicked after its start may have been answered.
func (b *bulk) end(finish func() []session.Token) {
	if !b.over.CompareAndSwap(false, true) {
		return
	}
	c := b.c
	defer c.network.Add(-b.bytes)
	answer, granted, err := b.complete(finish)
	c.streamState.release()
	if err != nil {
		c.fail(b.seq, err)
	} else {
		c.out.add(&holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_ResumedSessions{ResumedSessions: answer},
		})
	}
	waited, change := c.streamState.answeredBulk(b.requests.Sessions, granted)
	c.count(change)
	for _, e := range waited {
		c.deliver(e)
	}
	c.streamState.done()
}

// complete returns the answer with the granted sessions, or one refusal for all. It turns a panic into such a refusal,
// so that the counters of the stream are corrected in any case.
func (b *bulk) complete(finish func() []session.Token) (answer *holdfastv1.ResumedSessions, granted []session.Token,
	err error,
) {
	defer b.c.server.port.Recovered(wire.ConnectMethod, &err)
	tokens := finish()
	if why := b.whole(); why != nil {
		return nil, nil, why
	}
	return b.answer(), tokens, nil
}

// whole returns the common error if all sessions were refused for the same reason, which concerns no single session:
// the answer is then one error. While a node has no leader, clients retry again and again, and a thousand reasons each
// time would cost more than moves.
func (b *bulk) whole() error {
	first := b.outcomes[0].Err
	if !errors.Is(first, session.ErrNoLeader) && !errors.Is(first, session.ErrReadOnly) &&
		!errors.Is(first, session.ErrStopping) {
		return nil
	}
	for i := range b.outcomes {
		if b.outcomes[i].Err != first { //nolint:errorlint // the same value, not the same sentinel
			return nil
		}
	}
	return first
}

func (b *bulk) answer() *holdfastv1.ResumedSessions {
	m := &holdfastv1.ResumedSessions{
		Seq: b.seq, Attachments: make([]uint64, len(b.outcomes)), SafeForMs: make([]uint64, len(b.outcomes)),
	}
	var failures []session.TouchFailure
	var former error
	for i := range b.outcomes {
		o := &b.outcomes[i]
		if o.Err != nil {
			failures = append(failures, session.TouchFailure{ID: session.ID(b.ids[i]), Err: o.Err})
			if o.Err != former { //nolint:errorlint // the same value is noted once
				b.c.server.port.Note(wire.ConnectMethod, o.Err)
			}
			former = o.Err
			continue
		}
		m.Attachments[i], m.SafeForMs[i] = o.Attachment, uint64(max(o.SafeFor, 0).Milliseconds())
		if o.Applied != 0 && m.Applied == nil {
			m.Applied, m.Floors = make([]uint64, len(b.outcomes)), make([]uint64, len(b.outcomes))
		}
		if o.Applied != 0 {
			m.Applied[i], m.Floors[i] = o.Applied, o.Floor
		}
	}
	m.Failures = failuresProto(failures)
	b.c.server.stats.failed.Add(uint64(len(failures)))
	return m
}

// beginBulk counts a request in flight, or returns why it is refused. The caller then calls addResumes, release,
// answeredBulk and done; and waits.Done once it has begun.
func (r *streamState) beginBulk() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.admit()
	if err == nil {
		r.count()
	}
	return err
}

// addResumes counts the resumes of sessions in flight, in order. It returns the sessions beyond the stream's limit
// separately.
func (r *streamState) addResumes(at []int, id func(int) session.ID) (begun, refused []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	begun = make([]int, 0, len(at))
	for _, i := range at {
		if r.more(false, id(i)) && r.full() {
			refused = append(refused, i)
			continue
		}
		r.resumes[id(i)]++
		begun = append(begun, i)
	}
	return begun, refused
}

// answeredBulk is answered for many resumes, but the caller always calls done.
func (r *streamState) answeredBulk(requests []session.Resuming, granted []session.Token) (waited []event, change int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range requests {
		oneLess(r.resumes, requests[i].ID)
	}
	change = r.grant(granted...)
	return r.freed(), change
}
