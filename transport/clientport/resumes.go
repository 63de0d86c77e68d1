package clientport

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/gate"
	"holdfast/transport/port"
	"holdfast/transport/wire"
)

// bulkSessionBytes is about what a session costs in a request for many that is under way, beside its bytes in the
// message. The stream holds its id (8 bytes), what is asked (40) with its place (8), its outcome (32), and an entry in
// the map of resumes (up to 40). The node holds as much again without that entry (40 + 8 + 32), and the leader's word
// (32). What is left is for the columns of the message to the leader.
const bulkSessionBytes = 256

// bulk is one request to resume many sessions, under way.
type bulk struct {
	c   *connection
	seq uint64
	// outcomes are in the order of the request; those of sessions that the node is not asked for are refusals already.
	// asked are the sessions that it is asked for, at are their positions.
	outcomes []session.Resumed
	asked    session.ResumesRequest
	at       []int
	ids      []uint64
	// bytes is about what the request costs while it is under way.
	bytes int
	// over is set when the request has its outcome.
	over atomic.Bool
}

// resumes begins to resume many sessions. The budget counts each session: those beyond it are refused, each with a
// retry time of its own, and the others go on (M1).
func (c *connection) resumes(ctx context.Context, p *holdfastv1.ResumeSessions) error {
	r, err := wire.ClientResumesFrom(p)
	if err != nil {
		return err
	}
	b := &bulk{
		c: c, seq: p.GetSeq(), ids: p.GetIds(), outcomes: make([]session.Resumed, len(r.Sessions)),
		asked: session.ResumesRequest{
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

// start admits the sessions and asks the node for them. It turns a panic into an error.
func (b *bulk) start(r *session.ResumesRequest) (err error) {
	defer b.c.server.port.Recovered(wire.ConnectMethod, &err)
	b.admit(r)
	if len(b.at) == 0 {
		b.tell(nil)
		return nil
	}
	b.c.conn.StartResumes(b.asked, b.tell)
	return nil
}

// fail refuses all sessions that have not been refused yet.
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

// admit takes the sessions that the budget and the stream have room for, in their order, and refuses the others.
func (b *bulk) admit(r *session.ResumesRequest) {
	now := time.Now()
	for i := range r.Sessions {
		id := r.Sessions[i].ID
		if err := b.c.reservations.Admit(now, gate.Arrival{Kind: gate.Resumes, Session: id}); err != nil {
			b.outcomes[i] = session.Resumed{SafeFor: -1, Err: err}
			continue
		}
		b.at = append(b.at, i)
	}
	begun, refused := b.c.streamState.addResumes(b.at, func(i int) session.ID { return r.Sessions[i].ID })
	full := b.c.streamState.tooMany()
	for _, i := range refused {
		b.c.reservations.NotBegun(now, gate.Resumes)
		b.outcomes[i] = session.Resumed{SafeFor: -1, Err: full}
	}
	b.at = begun
	b.asked.Sessions = make([]session.Resuming, len(begun))
	for n, i := range b.at {
		b.asked.Sessions[n] = r.Sessions[i]
	}
}

// tell takes the outcomes of the sessions that the node was asked for.
func (b *bulk) tell(asked []session.Resumed) {
	b.end(func() []session.Token {
		now := time.Now()
		granted := make([]session.Token, 0, len(asked))
		for n, o := range asked {
			b.outcomes[b.at[n]] = o
			if o.Err != nil {
				b.c.reservations.Unserved(now, gate.Resumes, o.Err)
				continue
			}
			b.c.shortest.note(o.SafeFor) // the whole promise, which is below the timeout
			granted = append(granted, session.Token{ID: b.asked.Sessions[n].ID, Attachment: o.Attachment})
		}
		return granted
	})
}

// end ends the request: it has judge complete the outcomes, queues the answer, and then the events that waited for it.
// Only the first call counts: a request that panicked after it was started may have been answered.
func (b *bulk) end(judge func() []session.Token) {
	if !b.over.CompareAndSwap(false, true) {
		return
	}
	c := b.c
	defer c.network.Add(-b.bytes)
	answer, granted, err := b.judged(judge)
	c.streamState.release()
	if err != nil {
		c.fail(b.seq, err)
	} else {
		c.out.add(&holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_ResumedSessions{ResumedSessions: answer},
		})
	}
	waited, change := c.streamState.answeredBulk(b.asked.Sessions, granted)
	c.count(change)
	for _, e := range waited {
		c.tell(e)
	}
	c.streamState.done()
}

// judged returns the answer with the sessions that are granted, or why there is one refusal for all. It turns a panic
// into that refusal: the counters of the stream are put right in any case.
func (b *bulk) judged(judge func() []session.Token) (answer *holdfastv1.ResumedSessions, granted []session.Token,
	err error,
) {
	defer b.c.server.port.Recovered(wire.ConnectMethod, &err)
	tokens := judge()
	if why := b.whole(); why != nil {
		return nil, nil, why
	}
	return b.answer(), tokens, nil
}

// whole returns why all sessions were refused alike, when that is no session's fault: one error is the answer then.
// While a node has no leader, clients ask again and again, and a thousand reasons each time would cost more than moves.
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

// beginBulk counts a request as under way, or says why it is refused. The caller then calls addResumes, release,
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

// addResumes notes the resumes of sessions as under way, in their order. It returns those that the stream has no room
// for apart.
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
func (r *streamState) answeredBulk(asked []session.Resuming, granted []session.Token) (waited []event, change int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range asked {
		oneLess(r.resumes, asked[i].ID)
	}
	change = r.grant(granted...)
	return r.freed(), change
}
