package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast/fsm" //nolint:depguard // node.Observers names its types
	"holdfast/node"
	"holdfast/session"
	"holdfast/test/sim/faults"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// process is one life of a node.
type process struct {
	w      *world
	name   string
	disk   *disk
	cancel context.CancelFunc
	done   chan struct{} // closed when the process has ended completely

	mu sync.Mutex
	// guarded by mu. node is the node once it is made. killed is set when it is to end without warning, over when its
	// effects no longer count: its network is gone, or it has ended.
	node   *node.Node
	killed bool
	over   bool
	// stopping: the process got the signal to stop.
	stopping bool
	// frozen reports that the newest entry that was applied is one of a freeze. guarded by mu
	frozen bool
	// kept are the sessions that the newest entry keeps, until a moment of the log clock. Only the goroutine that
	// applies uses it.
	kept map[session.ID]time.Duration
	// seen are applied indexes whose digest is not recorded yet. guarded by mu
	seen map[uint64]bool
	term uint64 // guarded by mu; the newest term of which it has applied an entry
	// entry is the effects of the newest applied entry on sessions. Only the goroutine that applies uses it.
	entry []session.Change
}

// alive returns the node if it is made and has not ended.
func (p *process) alive() *node.Node {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed || p.over {
		return nil
	}
	return p.node
}

func (w *world) life(name string) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lives[name]
}

// Start starts a node on the contents of its disk, unless it is alive.
func (w *world) Start(name string) {
	if !w.roll.runs(name) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.closing:
		return
	default:
	}
	if former := w.lives[name]; former != nil {
		former.mu.Lock()
		over := former.over
		former.mu.Unlock()
		if !over {
			return
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{
		w: w, name: name, disk: w.drives[name].disk(), cancel: cancel, done: make(chan struct{}),
		seen: make(map[uint64]bool), kept: make(map[session.ID]time.Duration),
	}
	p.disk.failed = p.mustLeave
	w.lives[name] = p
	w.others.Go(func() {
		defer close(p.done)
		p.live(ctx)
	})
}

// live is the process's life.
func (p *process) live(ctx context.Context) {
	w := p.w
	cfg := w.config(p.name, p.disk.dir)
	started := history.Event{Kind: history.NodeStarted, Who: p.name, Node: cfg.Node}
	if w.readOnly[p.name] {
		started.State.Mode = session.ModeReadOnly
	}
	w.record.Add(started)
	options := node.Options{
		Logger:  w.logs.logger(p.name),
		Version: "sim",
		Platform: node.Platform{
			Network:       w.Host(p.name),
			Disk:          p.disk.wrap,
			Clock:         w.wallClock(p.name),
			Runs:          w.runs(p.name),
			CommitTimeout: w.commitTimeout(),
			Link:          w.between(p.name),
		},
		Observers: node.Observers{
			Applied: p.applied,
			OnAnswer: func(term uint64, from session.Node, sent time.Time) {
				p.note(history.Event{Kind: history.AnswerReceived, Who: p.name, Node: from, Term: term, Sent: w.record.Since(sent)})
			},
			Members: p.finds,
			Expires: p.expires,
			Local:   p.local,
			Leads:   func(term uint64) { p.note(history.Event{Kind: history.Leads, Who: p.name, Term: term}) },
			Tree: func(now *fsm.Tree, changes []tree.Change, wrote []fsm.Wrote) {
				p.frost(now)
				p.keeps(now)
				p.committed(now, changes, wrote)
				p.grew(now.Index, now.Root, changes)
			},
		},
	}
	options.Platform.WatchLimits.Changes, options.Platform.WatchLimits.Unsent = w.keepsToTell()
	w.smallBounds(&options.Platform)
	n, err := node.New(cfg, options)
	if err != nil {
		p.end(fmt.Errorf("start: %w", err))
		return
	}
	w.drives[p.name].old.served(p)
	p.mu.Lock()
	p.node = n
	p.mu.Unlock()
	p.end(n.Run(ctx))
}

// end does the rest when a process has ended with err.
func (p *process) end(err error) {
	w := p.w
	p.mu.Lock()
	over, stopping := p.killed || p.over, p.stopping
	p.over = true
	p.mu.Unlock()
	if over { // killed: the rest has no effect
		return
	}
	w.Network.Kill(p.name)
	w.record.Add(history.Event{Kind: history.NodeStopped, Who: p.name})
	p.seal()
	switch {
	case stopping && (err == nil || errors.Is(err, context.DeadlineExceeded)):
		// A stop may exceed its time, because Raft's messages through a cut are slower.
	case stopping && errors.Is(err, errGone): // killed in the middle of a write during its stop
	case p.disk.wasHurt():
		w.others.Go(func() { p.supervise() })
	case err == nil:
		w.failf("%s has ended by itself", p.name)
	case w.drives[p.name].old.refused(p, err):
		w.others.Go(func() { p.supervise() })
	default:
		w.failf("%s ended at %v: %v", p.name, w.record.Now(), err)
	}
}

// leaving is how long a node may need to end after a failed write: it stops in order, as far as possible.
const leaving = 10 * time.Second

// mustLeave is called when a write failed. The node cannot know the contents of its disk, and must not continue.
func (p *process) mustLeave() {
	time.AfterFunc(leaving, func() {
		if p.alive() != nil {
			p.w.failf("%s still runs %v after a write to its disk had failed", p.name, leaving)
		}
	})
}

// supervise restarts the node once its disk is healthy, like a supervisor.
func (p *process) supervise() {
	const wait = 500 * time.Millisecond
	for healthy := p.w.drives[p.name].healthy(); healthy != nil; healthy = p.w.drives[p.name].healthy() {
		select {
		case <-healthy:
		case <-p.w.closing:
			return
		}
	}
	sleep(context.Background(), wait)
	p.w.Start(p.name)
}

// Kill ends a node's process: first its network, so that its later work has no effect, then its disk.
func (w *world) Kill(name string) bool {
	p := w.life(name)
	return p.kill(p.seal)
}

// seal stops the process's writes.
func (p *process) seal() {
	if err := p.disk.seal(); err != nil {
		p.w.failf("the disk of %s: %v", p.name, err)
	}
}

// kill kills the process if it lives. seal then fixes the contents of its disk.
func (p *process) kill(seal func()) bool {
	if p.alive() == nil { // a process that starts is not there yet
		return false
	}
	p.mu.Lock()
	if p.killed || p.over || p.stopping {
		p.mu.Unlock()
		return false
	}
	p.killed = true
	p.mu.Unlock()
	p.w.Network.Kill(p.name)
	// Until the network is gone, the node's work counts: a client may have got an answer.
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.w.record.Add(history.Event{Kind: history.NodeStopped, Who: p.name})
	seal()
	p.cancel()
	return true
}

// Stop implements faults.Processes.
func (w *world) Stop(name string) bool {
	p := w.life(name)
	if p.alive() == nil {
		return false
	}
	p.mu.Lock()
	if p.killed || p.over || p.stopping {
		p.mu.Unlock()
		return false
	}
	p.stopping = true
	p.mu.Unlock()
	p.cancel()
	<-p.done
	return true
}

// HandOver implements faults.Processes.
func (w *world) HandOver(name string) bool {
	n := w.life(name).alive()
	if n == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return n.TransferLeadership(ctx) == nil
}

// Leader implements faults.Processes.
func (w *world) Leader() string {
	for _, name := range w.names {
		if n := w.life(name).alive(); n != nil && n.Leads() {
			return name
		}
	}
	return ""
}

// Break implements faults.Disks.
func (w *world) Break(name string, d faults.Damage, delay time.Duration) (undo func() bool) {
	undo, ok := w.drives[name].breaks(d, delay)
	if !ok {
		return func() bool { return false }
	}
	return undo
}

// Tear implements faults.Disks.
func (w *world) Tear(name string) (torn func() bool) {
	p := w.life(name)
	if p.alive() == nil {
		return nil
	}
	return p.disk.tearNext(func() { p.kill(func() {}) })
}

// stop ends all nodes and waits for them.
func (w *world) stop() {
	w.mu.Lock()
	close(w.closing)
	for _, p := range w.lives {
		p.mu.Lock()
		p.over = true // an error on the way out of a run is no finding
		p.mu.Unlock()
		p.cancel()
	}
	w.mu.Unlock()
	w.others.Wait()
}

// note records an event of a process while it lives.
func (p *process) note(e history.Event) {
	p.mu.Lock()
	over := p.over
	p.mu.Unlock()
	if !over {
		p.w.record.Add(e)
	}
}

// applied records what the node applied, on the goroutine that applies.
func (p *process) applied(index, term uint64, changes []session.Change) {
	lag := p.lag()
	defer p.dawdle(lag) // last: clients already know of moves and ends, and that must be recorded
	p.mu.Lock()
	over, first := p.over, term > p.term
	p.seen[index], p.term = true, max(p.term, term)
	p.mu.Unlock()
	p.entry = changes
	if over {
		return
	}
	w := p.w
	if first {
		w.record.Add(history.Event{Kind: history.AppliedTerm, Who: p.name, Index: index, Term: term})
	}
	for _, c := range changes {
		e := history.Event{
			Who: p.name, ID: c.Session.ID, Attachment: c.Session.Attachment, Timeout: c.Session.Timeout, Index: index,
			Term: term, ApplyDelay: lag,
			Node: c.Session.Owner, Instance: c.Session.Instance,
		}
		switch c.Kind {
		case session.Opened:
			e.Kind = history.AppliedOpen
			w.noteOpened(e.ID)
		case session.Moved:
			e.Kind = history.AppliedMove
		case session.Ended:
			certificate := *c.Certificate
			e.Kind, e.Cause, e.Certificate = history.AppliedEnd, c.Certificate.Cause, &certificate
			w.end(c.Session.ID)
		}
		w.record.Add(e)
	}
}

// expires records which sessions a leader found expired.
func (p *process) expires(term uint64, found []session.Closing) {
	for _, c := range found {
		p.note(history.Event{
			Kind: history.Decided, Who: p.name, ID: c.ID, Attachment: c.Attachment, Term: term,
			Text: fmt.Sprintf("last touched %v before", c.LastTouchAge),
		})
	}
}

// local records an event of a local session.
func (p *process) local(c session.Change) {
	s := c.Session
	e := history.Event{
		Who: p.name, ID: s.ID, Attachment: s.Attachment, Instance: s.Instance, Local: true,
		Timeout: s.Timeout, Node: s.Owner,
	}
	switch c.Kind {
	case session.Opened:
		e.Kind = history.LocalOpened
	case session.Moved:
		e.Kind = history.LocalMoved
	case session.Ended:
		certificate := *c.Certificate
		e.Kind, e.Cause, e.Certificate = history.LocalEnded, c.Certificate.Cause, &certificate
	}
	p.note(e)
}

// sample records the digests at the indexes that nodes have applied since the last sample.
func (w *world) sample() {
	for _, name := range w.names {
		p := w.life(name)
		n := p.alive()
		if n == nil {
			continue
		}
		p.mu.Lock()
		for index := range p.seen {
			if digest, ok := n.Digest(index); ok {
				w.record.Add(
					history.Event{Kind: history.Digest, Who: name, Index: index, Text: fmt.Sprintf("%x", digest)},
				)
			}
		}
		clear(p.seen)
		p.mu.Unlock()
	}
}
