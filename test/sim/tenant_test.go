package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/test/sim/simnet"
)

// lookEvery is the interval at which a session's promise is read. No promise is made more often.
const lookEvery = 100 * time.Millisecond

// tenant is one client process that uses the SDK, and records the SDK's reports.
type tenant struct {
	w      *world
	name   string
	client *client.Client
	// instance is the client's instance, a new one with each start.
	instance uint64
	// watching counts the goroutines that watch its sessions.
	watching sync.WaitGroup

	// local is the share of local sessions among those it opens, 0 to 1.
	local float64
	// readOnly allows read-only nodes. Some of its sessions then outlive the time after which a node becomes read-only.
	readOnly bool
	// digests are the names and passwords by which access lists know it.
	digests []string

	mu   sync.Mutex
	rand *rand.Rand                   // guarded by mu
	held map[*client.Session]struct{} // guarded by mu; the sessions that have not ended
}

// tenant starts a client process on a separate host.
func (w *world) tenant(name string) *tenant {
	x := w.absent(name)
	x.start(w.Host(name))
	return x
}

// absent is a tenant whose process has not started.
func (w *world) absent(name string) *tenant {
	return &tenant{w: w, name: name, rand: w.stream(name), held: make(map[*client.Session]struct{})}
}

func (x *tenant) start(host *simnet.Host) {
	x.instance = x.w.instance()
	c, err := client.New(client.Config{
		Instance: x.instance, Endpoints: x.w.endpoints(), Dial: host.Dial, Logger: x.w.logs.logger(x.name),
		Rand:     x.w.stream(x.name + " waits"),
		ReadOnly: x.readOnly, Digests: x.digests,
	})
	if err != nil {
		x.w.t.Fatal(err)
	}
	x.client = c
}

// stop closes the client and waits for the goroutines that watch its sessions.
func (x *tenant) stop() {
	if err := x.client.Close(); err != nil {
		x.w.failf("%s: close client: %v", x.name, err)
	}
	x.watching.Wait()
}

func (x *tenant) between(low, high time.Duration) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return low + time.Duration(x.rand.Int64N(int64(high-low)))
}

func (x *tenant) draw(n int) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.rand.IntN(n)
}

// open opens a session and holds it. It returns nil when no node opened it within a while.
func (x *tenant) open(ctx context.Context, within time.Duration) *client.Session {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	sent := x.w.record.Now()
	s, err := x.client.Open(ctx, client.SessionOptions{
		Timeout: x.timeout(), Local: x.opensLocally(), Labels: x.w.labels(x.name),
	})
	if err != nil {
		x.w.record.Add(
			history.Event{
				Kind: history.Refused, Who: x.name, Sent: sent, Op: history.Open, Unknown: true,
				Text: err.Error(),
			},
		)
		return nil
	}
	x.w.record.Add(x.event(history.Opened, s, sent))
	x.hold(s)
	return s
}

// timeout draws the timeout of the next session.
func (x *tenant) timeout() time.Duration {
	if x.readOnly && x.draw(2) == 0 {
		return x.between(20*time.Second, 30*time.Second)
	}
	return x.between(4*time.Second, longest)
}

// steal resumes the session of t, which another tenant holds. It returns nil on failure.
func (x *tenant) steal(ctx context.Context, t session.Token) *client.Session {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	sent := x.w.record.Now()
	s, err := x.client.Resume(ctx, t)
	x.w.tookOver(x.name, x.instance, t, sent)
	if err != nil {
		x.w.record.Add(history.Event{
			Kind: history.Refused, Who: x.name, ID: t.ID, Sent: sent, Op: history.Resume, Unknown: true,
			Text: err.Error(),
		})
		return nil
	}
	x.w.record.Add(x.event(history.Resumed, s, sent))
	x.hold(s)
	return s
}

// close closes s in the cluster. If the close does not succeed, s is silent from then on.
func (x *tenant) close(ctx context.Context, s *client.Session) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	sent, token := x.w.record.Now(), s.Token()
	x.w.record.Add(
		history.Event{
			Kind: history.CloseSent, Who: x.name, ID: s.ID(), Attachment: token.Attachment,
			Local: token.Local,
		},
	)
	err := s.Close(ctx)
	e := history.Event{
		Kind: history.Closed, Who: x.name, ID: s.ID(), Attachment: token.Attachment, Local: token.Local,
		Sent: sent,
	}
	switch {
	case err == nil:
	case errors.Is(err, session.ErrMoved), errors.Is(err, session.ErrExpired):
		e.Kind, e.Op, e.Text = history.Refused, history.Close, err.Error()
	default:
		e.Kind, e.Text = history.Silent, "close did not come through: "+err.Error()
	}
	x.w.record.Add(e)
}

// event describes the present state of s.
func (x *tenant) event(k history.Kind, s *client.Session, sent time.Duration) history.Event {
	e := history.Event{Kind: k, Who: x.name, ID: s.ID(), Sent: sent}
	// The promise is read first: a newer attachment with an older promise is harmless.
	if until := s.SafeUntil(); !until.IsZero() {
		e.Until = x.w.record.Since(until)
	}
	t := s.Token()
	e.Attachment, e.Local = t.Attachment, t.Local
	return e
}

func (x *tenant) hold(s *client.Session) {
	x.mu.Lock()
	x.held[s] = struct{}{}
	x.mu.Unlock()
	x.watching.Go(func() {
		x.watch(s)
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.held, s)
	})
}

// all returns the sessions that have not ended.
func (x *tenant) all() []*client.Session {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := make([]*client.Session, 0, len(x.held))
	for s := range x.held {
		all = append(all, s)
	}
	return all
}

// watch records the promises, attachments and contexts of s until it ends.
func (x *tenant) watch(s *client.Session) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	last := x.event(history.Promised, s, 0)
	seen := make(map[context.Context]bool)
	was := client.StateConnecting
	for {
		if is := s.State(); is != was {
			if is == client.StateConnectedReadOnly {
				x.w.record.Add(x.event(history.OnlyReads, s, 0))
			}
			was = is
		}
		if current := s.Context(); !seen[current] && current.Err() == nil {
			seen[current] = true
			context.AfterFunc(current, func() {
				x.w.record.Add(
					history.Event{
						Kind: history.ContextEnded, Who: x.name, ID: s.ID(), Text: context.Cause(current).Error(),
					},
				)
			})
		}
		now := x.event(history.Promised, s, 0)
		if now.Attachment != last.Attachment || now.Local != last.Local {
			moved := now
			moved.Kind, moved.Until = history.Resumed, 0
			if last.Local && !now.Local {
				moved.Kind = history.Upgraded
			}
			x.w.record.Add(moved)
		}
		if now.Until != last.Until {
			x.w.record.Add(now)
		}
		last = now
		select {
		case <-ticker.C:
		case <-s.Done():
			x.ended(s)
			return
		}
	}
}

// ended records how s ended.
func (x *tenant) ended(s *client.Session) {
	t := s.Token()
	e := history.Event{Who: x.name, ID: s.ID(), Attachment: t.Attachment, Local: t.Local, Text: s.Err().Error()}
	var expired *session.ExpiredError
	switch err := s.Err(); {
	case errors.Is(err, session.ErrMoved):
		e.Kind = history.LearntMoved
	case errors.As(err, &expired) && expired.LocalTo != 0:
		e.Kind = history.LearntElsewhere
		x.w.record.Add(e)
		e.Kind = history.Silent
	case errors.As(err, &expired):
		e.Kind, e.Certificate = history.LearntGone, expired.Certificate
	case errors.Is(err, session.ErrClosed):
		return
	default:
		x.w.failf("%s: session %s ended with %v", x.name, s.ID(), err)
		return
	}
	x.w.record.Add(e)
}

// live opens, holds, closes and loses sessions until ctx ends.
func (x *tenant) live(ctx context.Context, others []*tenant) {
	kept := x.moveIn(ctx)
	for ctx.Err() == nil {
		s := x.open(ctx, 30*time.Second)
		if s == nil {
			sleep(ctx, 500*time.Millisecond) // the open may have been refused at once
			continue
		}
		sleep(ctx, x.between(time.Second, 12*time.Second))
		if ctx.Err() != nil {
			return
		}
		switch x.draw(6) {
		case 0, 1:
			x.close(ctx, s)
		case 2:
			x.rob(ctx, s, others[x.draw(len(others)):][:1])
		case 3:
			x.rob(ctx, s, others)
		default: // held to the end, or until another client takes it over
			if len(x.all()) > kept+6 {
				x.close(ctx, s)
			}
		}
	}
}

// household is how many further sessions a tenant of a household keeps: the SDK resumes fewer sessions one by one at a
// node that it does not know yet.
const household = 24

// moveIn opens the sessions of a household, which are held to the end or until another client takes them over. It
// returns how many sessions the tenant keeps.
func (x *tenant) moveIn(ctx context.Context) int {
	if !x.w.households() {
		return 0
	}
	for n := 0; n < household && ctx.Err() == nil; n++ {
		x.open(ctx, time.Second)
	}
	return household
}

// rob makes thieves resume s at once. The last of them keeps it.
func (x *tenant) rob(ctx context.Context, s *client.Session, thieves []*tenant) {
	var robbing sync.WaitGroup
	for _, thief := range thieves {
		robbing.Go(func() { thief.steal(ctx, s.Token()) })
	}
	robbing.Wait()
}

// die repeats until ctx ends: it opens sessions, holds them, and is cut off from all nodes until they are gone.
// patient bounds the last wait.
func (x *tenant) die(ctx, patient context.Context) {
	for ctx.Err() == nil {
		for range 2 {
			x.open(ctx, 30*time.Second)
		}
		sleep(ctx, x.between(time.Second, 15*time.Second))
		x.silence(func() {
			x.fallSilent()
			for _, s := range x.all() {
				x.w.awaitEnd(patient, s.ID())
			}
			// Half of them come back after their sessions' end, and must learn of it.
			sleep(patient, time.Second)
		})
		if x.draw(2) == 0 {
			x.awaitEnds(patient)
			// A local session whose upgrade was in flight may have outlived the silence, and is released now.
			x.fallSilent()
		}
		x.stop()
		x.start(x.w.Host(x.name))
	}
}

// fallSilent notes that the tenant's sessions are silent from now on.
func (x *tenant) fallSilent() {
	for _, s := range x.all() {
		x.leave(s)
	}
}

// leave records that the tenant does nothing for a session any more.
func (x *tenant) leave(s *client.Session) {
	e := x.event(history.Silent, s, 0)
	e.Until = 0
	x.w.record.Add(e)
}

// silence cuts the tenant off from all nodes while f runs.
func (x *tenant) silence(f func()) {
	for _, n := range x.w.names {
		x.w.Cut(x.name, n)
		x.w.Cut(n, x.name)
	}
	f()
	for _, n := range x.w.names {
		x.w.Heal(x.name, n)
		x.w.Heal(n, x.name)
	}
}

// awaitEnds waits until the client knows that all its sessions have ended. It excludes sessions that a freeze has kept:
// they have promises again since the client is back.
func (x *tenant) awaitEnds(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, s := range x.all() {
		select {
		case <-s.Done():
		case <-ctx.Done():
			x.leave(s)
		}
	}
}

// testify records which sessions the tenant believes alive, and that it can open one.
func (x *tenant) testify(ctx context.Context) {
	for _, s := range x.all() {
		state := s.State().String() // read before the promise, whose end may change the state
		e := x.event(history.Alive, s, 0)
		e.Text = state
		x.w.record.Add(e)
	}
	if x.open(ctx, recovery) == nil {
		x.w.failf("%s: no session could be opened within %v, long after the last fault", x.name, recovery)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
