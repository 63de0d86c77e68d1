package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"holdfast/node"
	"holdfast/session"
)

// crossings delay the messages between a node and a leader: each message for a random time, on its way there or back.
// The messages of one stream keep their order. Those of the two streams, Follow and Forward, overtake each other, as on
// separate connections, and both overtake Raft's messages.
type crossings struct {
	mu   sync.Mutex
	rand *rand.Rand               // guarded by mu
	most map[string]time.Duration // guarded by mu; how long messages of a node are held at most
	held map[string]int           // guarded by mu; how many messages of a node were held
}

func newCrossings(r *rand.Rand) *crossings {
	return &crossings{rand: r, most: make(map[string]time.Duration), held: make(map[string]int)}
}

// Cross implements faults.World.
func (w *world) Cross(name string, most time.Duration) (undo func() bool) {
	c := w.crossings
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most[name] += most
	before := c.held[name]
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.most[name] -= most
		return c.held[name] > before
	}
}

// due returns when a message of a node that follows one due at a moment is to be passed on.
func (c *crossings) due(name string, former time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if most := c.most[name]; most > 0 {
		c.held[name]++
		now = now.Add(time.Duration(c.rand.Int64N(int64(most))))
	}
	if now.Before(former) {
		return former
	}
	return now
}

// between returns the wrapper of a node's links to leaders; nil in seeds without crossings, to save its cost.
func (w *world) between(name string) func(node.Link) node.Link {
	if !w.crosses() {
		return nil
	}
	return func(base node.Link) node.Link {
		return &crossedLink{
			base: base, name: name, by: w.crossings,
			crossed: newCrossed[session.LearnerMessage, session.LeaderMessage](context.Background(), w.crossings, name, base),
		}
	}
}

// stream is one stream as it is.
type stream[Out, In any] interface {
	Send(m Out) error
	Recv() (In, error)
	Close() error
}

// crossed is one stream. Its two directions hold messages; a goroutine of each carries them on.
type crossed[Out, In any] struct {
	base stream[Out, In]
	out  *delayed[Out]
	in   *delayed[In]
	life context.Context //nolint:containedctx // the context is the stream's life
	end  context.CancelFunc
}

func newCrossed[Out, In any](of context.Context, by *crossings, name string, base stream[Out, In]) *crossed[Out, In] {
	c := &crossed[Out, In]{base: base}
	c.life, c.end = context.WithCancel(of)
	c.out, c.in = newDelayed[Out](by, name, c.life.Done()), newDelayed[In](by, name, c.life.Done())
	go c.out.carry(base.Send)
	go c.in.fetch(base.Recv)
	return c
}

func (c *crossed[Out, In]) Send(m Out) error  { return c.out.put(m, nil) }
func (c *crossed[Out, In]) Recv() (In, error) { return c.in.next() }

func (c *crossed[Out, In]) Close() error {
	c.end()
	return c.base.Close()
}

// crossedLink is a link whose stream of writes is crossed as well.
type crossedLink struct {
	base node.Link
	name string
	by   *crossings
	*crossed[session.LearnerMessage, session.LeaderMessage]
}

// Forward opens a stream of writes, which ends with the link.
func (l *crossedLink) Forward() (node.ForwardLink, error) {
	base, err := l.base.Forward()
	if err != nil {
		return nil, err
	}
	return newCrossed[session.ForwardMessage, []session.WriteRefusal](l.life, l.by, l.name, base), nil
}

// lineDepth is how many messages a line holds before its sender waits.
const lineDepth = 256

var errLinkOver = errors.New("the link is closed")

// delayed is one direction of one stream.
type delayed[M any] struct {
	by   *crossings
	name string
	over <-chan struct{}
	ch   chan carried[M]

	mu     sync.Mutex
	last   time.Time // guarded by mu; when the newest message is due
	failed error     // guarded by mu
}

type carried[M any] struct {
	m   M
	err error
	due time.Time
}

func newDelayed[M any](by *crossings, name string, over <-chan struct{}) *delayed[M] {
	return &delayed[M]{by: by, name: name, over: over, ch: make(chan carried[M], lineDepth)}
}

// put queues a message, or the error that ends the stream.
func (l *delayed[M]) put(m M, err error) error {
	l.mu.Lock()
	l.last = l.by.due(l.name, l.last)
	c, failed := carried[M]{m, err, l.last}, l.failed
	l.mu.Unlock()
	if failed != nil {
		return failed
	}
	select {
	case l.ch <- c:
		return nil
	case <-l.over:
		return errLinkOver
	}
}

// next returns the next message when it is due.
func (l *delayed[M]) next() (m M, err error) {
	var c carried[M]
	select {
	case c = <-l.ch:
	case <-l.over:
		return m, errLinkOver
	}
	wait := time.NewTimer(time.Until(c.due))
	defer wait.Stop()
	select {
	case <-wait.C:
		return c.m, c.err
	case <-l.over:
		return m, errLinkOver
	}
}

// carry sends due messages, until the stream ends.
func (l *delayed[M]) carry(send func(M) error) {
	for {
		m, err := l.next()
		if err == nil {
			err = send(m)
		}
		if err != nil {
			l.mu.Lock()
			l.failed = err
			l.mu.Unlock()
			return
		}
	}
}

// fetch queues incoming messages, until the stream ends.
func (l *delayed[M]) fetch(recv func() (M, error)) {
	for {
		m, err := recv()
		if l.put(m, err) != nil || err != nil {
			return
		}
	}
}
