package leader_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"holdfast/session"
)

// member is a scripted learner.
type member struct {
	w     *world
	hello session.Hello
	// reply returns the answer that is given to a heartbeat at once. Nil means that the test answers, or that no answer
	// is given.
	reply func(b *session.Heartbeat) *session.Answer
	// delay is the time between a heartbeat and its answer.
	delay time.Duration
	// stuck, if set, blocks Send until it is closed.
	stuck chan struct{}

	out    chan session.LearnerMessage
	cutOff chan struct{}
	cut    func()
	ended  chan error

	mu      sync.Mutex
	beats   []*session.Heartbeat
	answers map[uint64]*session.Reply
	welcome *session.Welcome
}

func (m *member) Send(s session.LeaderMessage) error {
	if m.stuck != nil {
		select {
		case <-m.stuck:
		case <-m.cutOff:
		}
	}
	select {
	case <-m.cutOff:
		return errCut
	default:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case s.Welcome != nil:
		m.welcome = s.Welcome
	case len(s.Replies) > 0:
		for i := range s.Replies {
			m.answers[s.Replies[i].Seq] = &s.Replies[i]
		}
	case s.Heartbeat != nil:
		m.beats = append(m.beats, s.Heartbeat)
		m.w.line("%v  heartbeat %d to %d", m.w.now(), s.Heartbeat.Round, m.hello.Node)
		if m.reply != nil {
			if a := m.reply(s.Heartbeat); a != nil {
				go m.sends(a)
			}
		}
	}
	return nil
}

// sends sends an answer after the member's delay, unless the link is cut before.
func (m *member) sends(a *session.Answer) {
	timer := time.NewTimer(m.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.cutOff:
		return
	}
	select {
	case m.out <- session.LearnerMessage{Answer: a}:
	case <-m.cutOff:
	}
}

func (m *member) Recv() (session.LearnerMessage, error) {
	select {
	case s := <-m.out:
		return s, nil
	case <-m.cutOff:
		return session.LearnerMessage{}, io.EOF
	}
}

// line adds a line to the transcript.
func (w *world) line(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

// transcript returns the lines in the order of their moments; lines of one moment are sorted.
func (w *world) transcript() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.lines, func(a, b string) int {
		da, _ := time.ParseDuration(strings.Fields(a)[0])
		db, _ := time.ParseDuration(strings.Fields(b)[0])
		if da != db {
			return int(da - db)
		}
		return strings.Compare(a, b)
	})
	return strings.Join(w.lines, "\n")
}

// prompt answers every heartbeat at once, without touches.
func prompt(b *session.Heartbeat) *session.Answer { return answer(b.Round) }

// answer returns a whole answer of a relay that never stalled and has applied every attachment.
func answer(round uint64, touches ...session.Touch) *session.Answer {
	return &session.Answer{
		Round: round, Term: term, Attachment: 1 << 40, StallAge: forever, ProcessAge: forever,
		Touches: session.AppendTouches(nil, touches), Last: true,
	}
}

// join opens the next stream of a node, which answers heartbeats with reply.
func (w *world) join(node session.Node, reply func(*session.Heartbeat) *session.Answer) *member {
	w.streams[node]++
	return w.stream(session.Hello{
		Node: node, Incarnation: 1, Stream: w.streams[node],
	}, reply)
}

func (w *world) stream(hello session.Hello, reply func(*session.Heartbeat) *session.Answer) *member {
	return w.follow(&member{w: w, hello: hello, reply: reply})
}

func (w *world) follow(m *member) *member {
	m.out, m.cutOff = make(chan session.LearnerMessage, 1<<14), make(chan struct{})
	m.ended, m.answers = make(chan error, 1), make(map[uint64]*session.Reply)
	m.cut = sync.OnceFunc(func() { close(m.cutOff) })
	w.t.Cleanup(m.cut)
	go func() {
		m.ended <- w.tracker.Follow(w.t.Context(), m.hello, m)
		m.cut()
	}()
	synctest.Wait()
	return m
}

// replies changes how the member answers from now on.
func (m *member) replies(by func(*session.Heartbeat) *session.Answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reply = by
}

// says sends an answer.
func (m *member) says(a *session.Answer) {
	m.out <- session.LearnerMessage{Answer: a}
	synctest.Wait()
}

// last returns the newest heartbeat.
func (m *member) last() *session.Heartbeat {
	m.w.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.beats) == 0 {
		m.w.t.Fatalf("at %v: no heartbeat to node %d", m.w.now(), m.hello.Node)
	}
	return m.beats[len(m.beats)-1]
}

// asks sends a request and waits until all goroutines are idle.
func (m *member) asks(r session.Request) {
	m.out <- session.LearnerMessage{Requests: []session.Request{r}}
	synctest.Wait()
}

// replied returns the reply to a request, nil if there is none yet.
func (m *member) replied(seq uint64) *session.Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answers[seq]
}

// err returns why the stream has ended. The test fails if it has not.
func (m *member) err() error {
	m.w.t.Helper()
	synctest.Wait()
	select {
	case err := <-m.ended:
		return err
	default:
		m.w.t.Fatalf("at %v the stream of node %d has not ended", m.w.now(), m.hello.Node)
		return nil
	}
}
