package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/test/sim/simnet"
)

// ghost is a client that breaks the SDK's rules. It holds no connection, touches by token, and uses an old attachment
// after it has resumed the session elsewhere. It knows when it sent each request.
type ghost struct {
	w    *world
	name string
	rand *rand.Rand
	host *simnet.Host
	// touchers reach one node each.
	touchers []*client.Client
}

// grip is a token with its node.
type grip struct {
	token session.Token
	node  int
	// since is when a touch was last accepted.
	since time.Duration
}

func (w *world) ghost(name string) *ghost {
	g := &ghost{w: w, name: name, rand: w.stream(name), host: w.Host(name)}
	for node := range w.names {
		g.touchers = append(g.touchers, g.bound(node, w.instance()))
	}
	return g
}

// bound returns a client process that reaches one node only.
func (g *ghost) bound(node int, instance uint64) *client.Client {
	only := g.w.endpoints()[node]
	c, err := client.New(client.Config{
		Endpoints: []string{only},
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			if address != only {
				return nil, fmt.Errorf("%s goes to %s only, not to %s", g.name, only, address)
			}
			return g.host.Dial(ctx, address)
		},
		Logger: g.w.logs.logger(g.name), Rand: g.w.stream(g.name + only), Instance: instance,
	})
	if err != nil {
		g.w.t.Fatal(err)
	}
	return c
}

func (g *ghost) stop() {
	for _, c := range g.touchers {
		c.Close()
	}
}

const (
	ghostTimeout = 5 * time.Second
	callTimeout  = 2 * time.Second
)

// haunt uses one session after the other until ctx ends.
func (g *ghost) haunt(ctx context.Context) {
	for ctx.Err() == nil {
		now := g.open(ctx, client.SessionOptions{Timeout: ghostTimeout, Labels: g.w.labels(g.name)})
		if now == nil {
			sleep(ctx, time.Second)
			continue
		}
		g.keep(ctx, now, nil, g.between(2*time.Second, 15*time.Second))
		old := *now
		if g.resume(ctx, now) {
			g.keep(ctx, now, &old, g.between(2*time.Second, 15*time.Second))
			g.close(ctx, &old)
			g.keep(ctx, now, &old, g.between(time.Second, 5*time.Second))
		}
		if g.rand.IntN(3) == 0 {
			g.close(ctx, now)
		}
		g.w.record.Add(g.event(history.Silent, now.token, 0, time.Time{}))
	}
}

func (g *ghost) between(low, high time.Duration) time.Duration {
	return low + time.Duration(g.rand.Int64N(int64(high-low)))
}

// attach opens or resumes a session through a node, by a client that ends at once and leaves the session attached
// there. It records the answer as kind, and returns nil when none came in time.
func (g *ghost) attach(
	ctx context.Context, node int, instance uint64, kind history.Kind,
	how func(context.Context, *client.Client) (*client.Session, error),
) (*grip, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	x := g.bound(node, instance)
	defer x.Close()
	sent := g.w.record.Now()
	s, err := how(ctx, x)
	if err != nil {
		return nil, err
	}
	e := g.event(kind, s.Token(), sent, s.SafeUntil())
	e.Node = session.Node(node + 1)
	g.w.record.Add(e)
	return &grip{token: s.Token(), node: node, since: sent}, nil
}

// open opens a session. It returns nil when there was no answer.
func (g *ghost) open(ctx context.Context, o client.SessionOptions) *grip {
	h, err := g.attach(ctx, g.someNode(-1), g.w.instance(), history.Opened,
		func(ctx context.Context, x *client.Client) (*client.Session, error) { return x.Open(ctx, o) })
	if err != nil {
		return nil
	}
	return h
}

// resume takes the session over through another node. It reports whether it was answered.
func (g *ghost) resume(ctx context.Context, h *grip) bool {
	return g.resumeAt(ctx, h, g.someNode(h.node))
}

// someNode draws a node other than one.
func (g *ghost) someNode(but int) int {
	if in := g.w.roll.in(); in != nil {
		in = slices.DeleteFunc(in, func(node int) bool { return node == but })
		return in[g.rand.IntN(len(in))]
	}
	if but < 0 {
		return g.rand.IntN(len(g.touchers))
	}
	return (but + 1 + g.rand.IntN(len(g.touchers)-1)) % len(g.touchers)
}

// resumeAt is resume through one node. The asking process ends with the call, so its request may still be in flight.
func (g *ghost) resumeAt(ctx context.Context, h *grip, node int) bool {
	sent, instance, token := g.w.record.Now(), g.w.instance(), h.token
	now, err := g.attach(ctx, node, instance, history.Resumed,
		func(ctx context.Context, x *client.Client) (*client.Session, error) {
			return x.Resume(ctx, token)
		})
	g.w.tookOver(g.name, instance, token, sent)
	if err != nil {
		g.refused(h, node, sent, history.Resume, err)
		return false
	}
	*h = *now
	return true
}

// keep touches through now, and through old if there is one, for about d. It resumes elsewhere when now's node does not
// answer.
func (g *ghost) keep(ctx context.Context, now, old *grip, d time.Duration) {
	for end := g.w.record.Now() + d; g.w.record.Now() < end && ctx.Err() == nil; {
		if old != nil {
			g.touch(ctx, old)
		}
		g.touch(ctx, now)
		if g.w.record.Now()-now.since > ghostTimeout/2 {
			g.rescue(ctx, now)
		}
		sleep(ctx, g.between(300*time.Millisecond, 1500*time.Millisecond))
	}
}

// rescue resumes a session whose touches are refused: at another node, or at the only possible node.
func (g *ghost) rescue(ctx context.Context, h *grip) {
	if h.token.Local {
		g.resumeAt(ctx, h, h.node)
	} else {
		g.resume(ctx, h)
	}
}

func (g *ghost) touch(ctx context.Context, h *grip) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sent := g.w.record.Now()
	results, err := g.touchers[h.node].Touch(ctx, []session.Token{h.token})
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		g.refused(h, h.node, sent, history.Touch, err)
		return
	}
	h.since = sent
	e := g.event(history.Touched, h.token, sent, results[0].SafeUntil)
	e.Node = session.Node(h.node + 1)
	g.w.record.Add(e)
}

func (g *ghost) close(ctx context.Context, h *grip) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sent := g.w.record.Now()
	if err := g.touchers[h.node].CloseToken(ctx, h.token); err != nil {
		g.refused(h, h.node, sent, history.Close, err)
		return
	}
	g.w.record.Add(g.event(history.Closed, h.token, sent, time.Time{}))
}

// event describes an answer.
func (g *ghost) event(k history.Kind, t session.Token, sent time.Duration, until time.Time) history.Event {
	e := history.Event{Kind: k, Who: g.name, ID: t.ID, Attachment: t.Attachment, Local: t.Local, Sent: sent}
	if !until.IsZero() {
		e.Until = g.w.record.Since(until)
	}
	return e
}

// refused records that a request through a node was refused or not answered.
func (g *ghost) refused(h *grip, node int, sent time.Duration, op history.Op, err error) {
	e := g.event(history.Refused, h.token, sent, time.Time{})
	e.Op, e.Node, e.Text = op, session.Node(node+1), err.Error()
	var expired *session.ExpiredError
	switch {
	case errors.Is(err, session.ErrMoved):
		e.Kind = history.LearntMoved
	case errors.As(err, &expired) && expired.LocalTo != 0: // such an answer says nothing about the session
	case errors.As(err, &expired):
		e.Kind, e.Certificate = history.LearntGone, expired.Certificate
	default:
		e.Unknown = true
	}
	g.w.record.Add(e)
}
