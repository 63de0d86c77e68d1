package health

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
	// drainPass is the time between two passes of a drain.
	drainPass = 100 * time.Millisecond
	// drainPace is the number of sessions that a node sends away in a second. The pace is higher if the sessions could
	// not all leave within half of drain_timeout. Each session costs a resume at another node and a command in the log.
	drainPace = 10_000
	// settleIntervals is the number of intervals after which a node believes that no other node is drained.
	settleIntervals = 3
	// answerIntervals is the number of intervals for which the node waits for answers of all voters to the leader.
	answerIntervals = 5
	// maxAnswerInterval bounds such an interval: an operator waits at most a few seconds for a drain to begin.
	maxAnswerInterval = 600 * time.Millisecond
)

// DrainConfig has a node's functions and settings for a [Drain].
type DrainConfig struct {
	Node   session.Node
	Logger hclog.Logger
	Pulse  session.Pulse
	// Timeout is the setting drain_timeout, Interval the heartbeat interval.
	Timeout, Interval time.Duration
	// Server serves the clients that must leave.
	Server *learner.Server
	// Leads reports whether Raft leads here. TransferToAny and TransferTo transfer leadership.
	Leads         func() bool
	TransferToAny func(context.Context) error
	TransferTo    func(context.Context, session.Node) error
	// Peers are the members as this node's tracker knows them, Members the members of Raft's configuration.
	Peers   func() []leader.Peer
	Members func() []clientport.Member
	// Observes reports whether the node is an observer, without a vote.
	Observes func() bool
	// DiskFull reports whether this node's disk is full, DisksFull whether so many disks are full that every node
	// refuses writes.
	DiskFull, DisksFull func() bool
	// Changed is called when a drain begins or ends.
	Changed func()
}

// Drain drains a node: leadership leaves first, then the clients (Q1 drain). It also moves both away while the disk is
// full (O5 full disks). Its state is in memory: a restart ends a drain. Safe for concurrent use.
type Drain struct {
	cfg DrainConfig
	// evacuation works while the disk is full and the node is not drained. It belongs to Run.
	evacuation evacuation
	// news wakes Run.
	news chan struct{}

	mu sync.Mutex
	// now is nil while the node is not drained. guarded by mu
	now *draining
	// stopping says that the drain can no longer be ended. guarded by mu
	stopping bool
}

// NewDrain returns a Drain. Run must run for anything to happen.
func NewDrain(cfg DrainConfig) *Drain {
	cfg.Interval = min(cfg.Interval, maxAnswerInterval)
	d := &Drain{cfg: cfg, news: make(chan struct{}, 1)}
	d.evacuation = evacuation{drain: d}
	return d
}

// draining is one drain, from its beginning to its end.
type draining struct {
	since time.Time
	// done is closed once the stop of the node need not wait any longer.
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

// Drain begins to drain the node, unless a drain has begun. See [clientport.Drains].
func (d *Drain) Drain( //nolint:revive // flag-parameter: the caller decides
	ctx context.Context, force bool,
) (clientport.DrainStatus, error) {
	if !force && d.current() == nil {
		if err := d.awaitCheck(ctx); err != nil {
			return clientport.DrainStatus{}, err
		}
	}
	return d.statusOf(d.begin()), nil // even if the node was undrained meanwhile
}

// Begin begins to drain the node without a check, unless a drain has begun.
func (d *Drain) Begin() { d.begin() }

func (d *Drain) begin() *draining {
	d.mu.Lock()
	fresh := d.now == nil
	if fresh {
		d.now = &draining{since: time.Now(), done: make(chan struct{})}
	}
	now := d.now
	d.mu.Unlock()
	if fresh {
		d.cfg.Logger.Info("draining: leadership and clients go to other nodes", "timeout", d.cfg.Timeout)
		wake(d.news)
		d.cfg.Changed()
	}
	return now
}

// Undrain ends the drain. See [clientport.Drains].
func (d *Drain) Undrain() (bool, error) {
	d.mu.Lock()
	was := d.now != nil
	if d.stopping {
		d.mu.Unlock()
		return false, session.ErrStopping
	}
	d.now = nil
	d.mu.Unlock()
	if was {
		d.cfg.Logger.Info("no longer draining: clients are accepted again")
		wake(d.news)
		d.cfg.Changed()
	}
	return was, nil
}

// DiskChanged says that the node's disk has become full, or is no longer full.
func (d *Drain) DiskChanged() { wake(d.news) }

func (d *Drain) current() *draining {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// On reports whether the node is drained or being drained.
func (d *Drain) On() bool { return d.current() != nil }

// Check returns [session.ErrDraining] while the drain is on.
func (d *Drain) Check() error {
	if d.On() {
		return session.ErrDraining
	}
	return nil
}

// Done reports whether the node is drained, as far as it can be.
func (d *Drain) Done() bool {
	now := d.current()
	return now != nil && now.isDone()
}

// Status describes the progress of the drain; nil without a drain.
func (d *Drain) Status() *clientport.DrainStatus {
	now := d.current()
	if now == nil {
		return nil
	}
	s := d.statusOf(now)
	return &s
}

func (d *Drain) statusOf(now *draining) clientport.DrainStatus {
	served := learner.ServedBy(d.cfg.Server)
	return clientport.DrainStatus{
		Since: now.since, Connections: served.Connections, Sessions: served.Sessions, Local: d.cfg.Server.Stats().Local,
		Leads: d.cfg.Leads(), Done: now.isDone(),
	}
}

// Stop drains the node because it stops. It returns when the drain is done, when no node can take the clients, when ctx
// ends, or after drain_timeout. The drain cannot be ended afterwards.
func (d *Drain) Stop(ctx context.Context) {
	if d.cfg.Timeout == 0 || d.Serves() != nil || len(d.targets()) == 0 {
		return
	}
	d.mu.Lock()
	d.stopping = true
	d.mu.Unlock()
	now := d.begin()
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	ticker := d.cfg.Pulse.Ticker(drainPass)
	defer ticker.Stop()
	for len(d.targets()) > 0 && d.Serves() == nil {
		select {
		case <-now.done:
			return
		case <-ctx.Done():
			served := learner.ServedBy(d.cfg.Server)
			d.cfg.Logger.Warn("stopping although clients are still connected", "connections", served.Connections,
				"sessions", served.Sessions)
			return
		case <-ticker.C:
		}
	}
}

// Serves returns nil when the node could serve clients, drained or not. An observer serves without a vote.
func (d *Drain) Serves() error {
	if err := d.cfg.Server.Ready(); !d.cfg.Observes() || !errors.Is(err, learner.ErrNoVote) {
		return err
	}
	return nil
}

// awaitCheck waits until heartbeats have carried the facts at the time of the call, and then checks. The leader learns
// from an answer to a heartbeat that a node is drained, or no longer drained, and informs the other nodes with the next
// heartbeat. awaitCheck returns nil when another call drains the node meanwhile.
func (d *Drain) awaitCheck(ctx context.Context) error {
	ticker := d.cfg.Pulse.Ticker(d.cfg.Interval)
	defer ticker.Stop()
	for i := range answerIntervals {
		if i >= settleIntervals && d.mayDrain() == nil || d.On() {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return d.mayDrain()
}

// mayDrain returns why the node must not be drained: the remaining nodes must be a quorum, and be able to take the
// clients.
func (d *Drain) mayDrain() error {
	if err := d.Serves(); err != nil {
		return &session.DrainRefusedError{Why: "it does not serve, and knows nothing of the others: " + err.Error()}
	}
	excluded, _ := d.cfg.Server.Excluded()
	voters, remain, votes := 0, 0, false
	var missing []string
	for _, m := range d.cfg.Members() {
		if !m.Voter {
			continue
		}
		voters++
		switch {
		case m.Node == d.cfg.Node:
			votes = true
		case slices.Contains(excluded.Unreachable, m.Node):
			missing = append(missing, fmt.Sprintf("node %d is not responding", m.Node))
		case slices.Contains(excluded.Draining, m.Node):
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

// targets returns the client addresses of the nodes that can take clients. If all disks are full, it returns nodes with
// full disks.
func (d *Drain) targets() []string {
	withSpace, full := d.targetsByDisk()
	if len(withSpace) == 0 {
		return full
	}
	return withSpace
}

// targetsByDisk returns the client addresses of the nodes that can take clients: nodes with free disk space, and nodes
// with full disks.
func (d *Drain) targetsByDisk() (withSpace, full []string) {
	excluded, _ := d.cfg.Server.Excluded()
	for _, m := range d.cfg.Members() {
		switch {
		case m.Node == d.cfg.Node, m.ClientAddress == "", slices.Contains(excluded.Unreachable, m.Node),
			slices.Contains(excluded.Draining, m.Node):
		case slices.Contains(excluded.Full, m.Node):
			full = append(full, m.ClientAddress)
		default:
			withSpace = append(withSpace, m.ClientAddress)
		}
	}
	return withSpace, full
}

// hasSuccessor reports whether another voter could lead: it is responsive and not drained.
func (d *Drain) hasSuccessor() bool {
	return slices.ContainsFunc(d.cfg.Peers(), func(p leader.Peer) bool {
		return p.Node != d.cfg.Node && p.Voter && p.Responsive && !p.Draining
	})
}

// Run does the work of drains and of full disks, until ctx ends. Only Run sends clients away.
func (d *Drain) Run(ctx context.Context) error {
	var work *drainWork
	ticker := d.cfg.Pulse.Ticker(drainPass)
	defer ticker.Stop()
	for {
		now := d.current()
		if work != nil && work.of != now {
			work.end()
			work = nil
		}
		if now != nil {
			if work == nil {
				d.evacuation.drop()
				work = &drainWork{drain: d, of: now}
			}
			work.step(ctx)
		} else {
			d.evacuation.step(ctx)
		}
		var next <-chan time.Time
		if now != nil || d.cfg.DiskFull() {
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

// drainWork is the work of one drain. It belongs to the goroutine of [Drain.Run].
type drainWork struct {
	drain *Drain
	of    *draining
	// offload sends the clients away; nil before that begins.
	offload *learner.Offload
	// last is the time when clients were last sent away, initial the number of sessions at the beginning.
	last    time.Time
	initial int
	// closedRemaining is set once the remaining connections were ended.
	closedRemaining bool
}

// step does the work that is possible now.
func (w *drainWork) step(ctx context.Context) {
	cfg := &w.drain.cfg
	leads := cfg.Leads() && w.drain.hasSuccessor()
	if leads {
		if err := cfg.TransferToAny(ctx); err != nil && !errors.Is(err, session.ErrNotLeader) && ctx.Err() == nil {
			cfg.Logger.Warn("draining: leadership was not transferred", "error", err)
		}
		leads = cfg.Leads()
	}
	elapsed := time.Since(w.of.since)
	if leads && elapsed < cfg.Timeout/2 {
		return // leadership leaves first
	}
	w.offloadClients(elapsed)
	left := learner.ServedBy(cfg.Server)
	if elapsed >= cfg.Timeout && !w.closedRemaining {
		w.closedRemaining = true
		if left.Connections > 0 {
			cfg.Logger.Warn("draining: ending the connections of clients that have stayed", "connections",
				left.Connections, "sessions", left.Sessions)
		}
		cfg.Server.CloseRemaining()
	}
	if (!leads && left.Connections == 0 || w.closedRemaining) && !w.of.isDone() {
		cfg.Logger.Info("drained", "took", elapsed, "leads", cfg.Leads(), "sessions", left.Sessions)
		w.of.finish()
	}
}

// offloadClients asks clients to move, at a pace that the other nodes can bear.
func (w *drainWork) offloadClients(elapsed time.Duration) {
	now, cfg := time.Now(), &w.drain.cfg
	if w.offload == nil {
		w.offload, w.last = cfg.Server.Drain(w.drain.targets), now.Add(-drainPass)
		w.initial = learner.ServedBy(cfg.Server).Sessions
	}
	pace := drainPace
	if half := cfg.Timeout / 2; half > 0 {
		pace = max(pace, int(float64(w.initial)/half.Seconds()))
	}
	if elapsed >= cfg.Timeout/2 {
		pace = max(pace, int(float64(w.initial)/drainPass.Seconds()))
	}
	w.offload.AskNext(int(float64(pace)*now.Sub(w.last).Seconds()) + 1)
	w.last = now
}

// end reverts the work of the drain.
func (w *drainWork) end() {
	w.of.finish()
	if w.offload != nil {
		w.offload.End()
	}
}
