package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/leader"
	"holdfast/learner"
	"holdfast/session"
	"holdfast/transport/clientport"
)

const (
	// drainPass is how often a node that is being drained looks what is left to do.
	drainPass = 100 * time.Millisecond
	// drainPace is how many sessions a node sends away in a second, unless they are so many that the half of
	// drain_timeout would not do. Each of them is a resume at another node, and a command in the log.
	drainPace = 10_000
)

// drain drains this node: leadership goes first, then the clients (Q1). Its state is in memory: a restart ends it. Safe
// for concurrent use.
type drain struct {
	node    session.Node
	timeout time.Duration
	// interval is the time between two heartbeats, or less: see drainHears.
	interval time.Duration
	pulse    session.Pulse
	logger   hclog.Logger
	server   *learner.Server
	// leads reports whether Raft leads here, handOver gives the lead away, and peers are what this term knows.
	leads    func() bool
	handOver func(context.Context) error
	peers    func() []leader.Peer
	members  func() []clientport.Member
	// observes reports whether the node is to have no vote.
	observes func() bool
	// away is what the node does while its disk is full and it is not being drained.
	away evacuation
	// changed is told that the node's health has another answer.
	changed func()
	// news wakes run.
	news chan struct{}

	mu sync.Mutex
	// now is nil while the node is not being drained. guarded by mu
	now *draining
	// stopping says that nothing ends the drain any more. guarded by mu
	stopping bool
}

// draining is one drain, from its beginning to its end.
type draining struct {
	since time.Time
	// done is closed once nobody has to be waited for.
	done     chan struct{}
	finished sync.Once
}

func (d *draining) finish() { d.finished.Do(func() { close(d.done) }) }

func (d *draining) isDone() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// Drain begins to drain the node, unless that has begun. See [clientport.Drains].
func (d *drain) Drain( //nolint:revive // flag-parameter: the caller's word
	ctx context.Context, force bool,
) (clientport.DrainStatus, error) {
	if !force && d.current() == nil {
		if err := d.awaitCheck(ctx); err != nil {
			return clientport.DrainStatus{}, err
		}
	}
	return d.statusOf(d.begin()), nil // also if it was undrained meanwhile
}

// begin begins to drain the node, unless that has begun, and returns the drain.
func (d *drain) begin() *draining {
	d.mu.Lock()
	fresh := d.now == nil
	if fresh {
		d.now = &draining{since: time.Now(), done: make(chan struct{})}
	}
	now := d.now
	d.mu.Unlock()
	if fresh {
		d.logger.Info("draining: leadership and clients go to other nodes", "timeout", d.timeout)
		signal(d.news)
		d.changed()
	}
	return now
}

// Undrain ends the drain. See [clientport.Drains].
func (d *drain) Undrain() (bool, error) {
	d.mu.Lock()
	was := d.now != nil
	if d.stopping {
		d.mu.Unlock()
		return false, session.ErrStopping
	}
	d.now = nil
	d.mu.Unlock()
	if was {
		d.logger.Info("no longer draining: clients are taken again")
		signal(d.news)
		d.changed()
	}
	return was, nil
}

// diskChanged says that the node's disk has become full, or has room again.
func (d *drain) diskChanged() { signal(d.news) }

func (d *drain) current() *draining {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// on reports whether the node is being drained.
func (d *drain) on() bool { return d.current() != nil }

// isOver reports whether the node was drained, and nobody has to be waited for.
func (d *drain) isOver() bool {
	now := d.current()
	return now != nil && now.isDone()
}

// status says how far the drain has come, nil without one.
func (d *drain) status() *clientport.DrainStatus {
	now := d.current()
	if now == nil {
		return nil
	}
	s := d.statusOf(now)
	return &s
}

func (d *drain) statusOf(now *draining) clientport.DrainStatus {
	served := learner.ServedBy(d.server)
	return clientport.DrainStatus{
		Since: now.since, Connections: served.Connections, Sessions: served.Sessions, Local: d.server.Stats().Local,
		Leads: d.leads(), Done: now.isDone(),
	}
}

// leave drains the node because it stops, and returns when nobody has to be waited for, or nobody can take the clients,
// or ctx or the node's time for it ends. There is no way back.
func (d *drain) leave(ctx context.Context) {
	if d.timeout == 0 || d.ready() != nil || len(d.targets()) == 0 {
		return
	}
	d.mu.Lock()
	d.stopping = true
	d.mu.Unlock()
	now := d.begin()
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	ticker := d.pulse.Ticker(drainPass)
	defer ticker.Stop()
	for len(d.targets()) > 0 && d.ready() == nil {
		select {
		case <-now.done:
			return
		case <-ctx.Done():
			served := learner.ServedBy(d.server)
			d.logger.Warn("stopping although clients have not gone", "connections", served.Connections,
				"sessions", served.Sessions)
			return
		case <-ticker.C:
		}
	}
}

// ready returns nil when the node serves.
func (d *drain) ready() error {
	if err := d.server.Ready(); !d.observes() || !errors.Is(err, learner.ErrNoVote) {
		return err
	}
	return nil
}

const (
	// settling is how many intervals a node waits before it believes that no other node is being drained.
	settling = 3
	// drainHears bounds such an interval: an operator does not wait for more than a few seconds until a drain begins.
	drainHears = 600 * time.Millisecond
)

// awaitCheck is check, once heartbeats have told what was true when it was called: the leader hears in the answer to
// one that a node is being drained, or is not any more, and tells the others with the next. It returns nil when
// somebody drains the node meanwhile.
func (d *drain) awaitCheck(ctx context.Context) error {
	ticker := d.pulse.Ticker(d.interval)
	defer ticker.Stop()
	for i := range hearing {
		if i >= settling && d.check() == nil || d.on() {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return d.check()
}

// check says why the node should not be drained: the nodes that remain must be a quorum, and take the clients.
func (d *drain) check() error {
	if err := d.ready(); err != nil {
		return &session.DrainRefusedError{Why: "it does not serve, and knows nothing of the others: " + err.Error()}
	}
	aside, _ := d.server.Aside()
	voters, remain, votes := 0, 0, false
	var missing []string
	for _, m := range d.members() {
		if !m.Voter {
			continue
		}
		voters++
		switch {
		case m.Node == d.node:
			votes = true
		case slices.Contains(aside.Unheard, m.Node):
			missing = append(missing, fmt.Sprintf("node %d is not heard", m.Node))
		case slices.Contains(aside.Draining, m.Node):
			missing = append(missing, fmt.Sprintf("node %d is being drained", m.Node))
		default:
			remain++
		}
	}
	if quorum := voters/2 + 1; votes && remain < quorum {
		why := fmt.Sprintf("a quorum is %d voters, and without it %d remain", quorum, remain)
		if len(missing) > 0 {
			why += ": " + strings.Join(missing, ", ")
		}
		return &session.DrainRefusedError{Why: why}
	}
	if len(d.targets()) == 0 {
		return &session.DrainRefusedError{Why: "no other node can take its clients"}
	}
	return nil
}

// targets returns the client addresses of the nodes that can take clients: of those with full disks only if there are
// no others.
func (d *drain) targets() []string {
	roomy, full := d.takers()
	if len(roomy) == 0 {
		return full
	}
	return roomy
}

// takers returns the client addresses of the nodes that can take clients: of those that have room, and of those whose
// disks are full.
func (d *drain) takers() (roomy, full []string) {
	aside, _ := d.server.Aside()
	for _, m := range d.members() {
		switch {
		case m.Node == d.node, m.ClientAddress == "", slices.Contains(aside.Unheard, m.Node),
			slices.Contains(aside.Draining, m.Node):
		case slices.Contains(aside.Full, m.Node):
			full = append(full, m.ClientAddress)
		default:
			roomy = append(roomy, m.ClientAddress)
		}
	}
	return roomy, full
}

// successor reports whether a voter could lead in the place of this node: it is heard, and is not being drained.
func (d *drain) successor() bool {
	return slices.ContainsFunc(d.peers(), func(p leader.Peer) bool {
		return p.Node != d.node && p.Voter && p.Heard && !p.Draining
	})
}

// run does the work of drains and of full disks, until ctx ends. It alone sends clients away.
func (d *drain) run(ctx context.Context) error {
	var of *pass
	ticker := d.pulse.Ticker(drainPass)
	defer ticker.Stop()
	for {
		now := d.current()
		if of != nil && of.draining != now {
			of.end()
			of = nil
		}
		if now != nil {
			if of == nil {
				d.away.drop()
				of = &pass{drain: d, draining: now}
			}
			of.step(ctx)
		} else {
			d.away.step(ctx)
		}
		var next <-chan time.Time
		if now != nil || d.away.full() {
			next = ticker.C
		}
		select {
		case <-next:
		case <-d.news:
		case <-ctx.Done():
			return nil
		}
	}
}

// pass is the work of one drain. It belongs to one goroutine.
type pass struct {
	*drain
	*draining
	// away sends the clients away; nil before that begins.
	away *learner.SendOff
	// told is when clients were told last, and most the number of sessions at the beginning.
	told time.Time
	most int
	// dismissed is set once the connections that had not gone were ended.
	dismissed bool
}

// step does what can be done now.
func (p *pass) step(ctx context.Context) {
	leads := p.leads() && p.successor()
	if leads {
		if err := p.handOver(ctx); err != nil && !errors.Is(err, session.ErrNotLeader) && ctx.Err() == nil {
			p.logger.Warn("draining: leadership was not handed over", "error", err)
		}
		leads = p.leads()
	}
	over := time.Since(p.since)
	if leads && over < p.timeout/2 {
		return // leadership goes first
	}
	p.sendAway(over)
	left := learner.ServedBy(p.server)
	if over >= p.timeout && !p.dismissed {
		p.dismissed = true
		if left.Connections > 0 {
			p.logger.Warn("draining: ending the connections of clients that have not gone", "connections",
				left.Connections, "sessions", left.Sessions)
		}
		p.server.Dismiss()
	}
	if (!leads && left.Connections == 0 || p.dismissed) && !p.isDone() {
		p.logger.Info("drained", "took", over, "leads", p.leads(), "sessions", left.Sessions)
		p.finish()
	}
}

// sendAway tells clients to go, at a pace that the other nodes can bear.
func (p *pass) sendAway(over time.Duration) {
	now := time.Now()
	if p.away == nil {
		p.away, p.told, p.most = p.server.Drain(p.targets), now.Add(-drainPass), learner.ServedBy(p.server).Sessions
	}
	since := now.Sub(p.told)
	pace := drainPace
	if half := p.timeout / 2; half > 0 {
		pace = max(pace, int(float64(p.most)/half.Seconds()))
	}
	if over >= p.timeout/2 {
		pace = max(pace, int(float64(p.most)/drainPass.Seconds()))
	}
	p.away.Tell(int(float64(pace)*since.Seconds()) + 1)
	p.told = now
}

// end takes back what the drain has begun.
func (p *pass) end() {
	p.finish()
	if p.away != nil {
		p.away.End()
	}
}
